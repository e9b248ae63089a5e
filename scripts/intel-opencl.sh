#!/usr/bin/env bash
# intel-opencl.sh FOLDER PROGRAM [ARGUMENT ...]: installs Intel's OpenCL for CPUs into FOLDER, pinned by
# requirements-intel-opencl.txt, and runs a conformance program on it alone. Without arguments the results go to
# docs/results.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$1 program=$2
shift 2
if ! cmp -s "$root/requirements-intel-opencl.txt" "$folder/requirements.installed"; then
  rm -rf "$folder"
  "$root/.venv/bin/python3" -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes \
    -r "$root/requirements-intel-opencl.txt"
  cp "$root/requirements-intel-opencl.txt" "$folder/requirements.installed"
fi
folder=$(cd "$folder" && pwd)
# The loader reads the vendor files of this folder and no others.
mkdir -p "$folder/vendors"
echo "$folder/lib/libintelocl.so" > "$folder/vendors/intel.icd"
export OCL_ICD_VENDORS="$folder/vendors/" LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [[ $# == 0 ]]; then
  set -- --results "$root/docs/results/cpu-intel-opencl.json" \
    --revision "$(git -C "$root" describe --always --dirty 2> /dev/null || echo unknown)"
fi
exec "$program" --devices opencl "$@"
