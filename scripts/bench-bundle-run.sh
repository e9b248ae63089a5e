#!/usr/bin/env bash
# run.sh --device cuda --json cuda.json [ARGUMENT ...]: this bundle's measure.py, against PyTorch unless --against says else.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
library=${TMPDIR:-/tmp}/libashlar_bench.so
[[ $library -nt $here/lib/libashlar_bench.so.gz ]] || gunzip -c "$here/lib/libashlar_bench.so.gz" > "$library"
export LD_LIBRARY_PATH="$here/lib:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export OCL_ICD_VENDORS="${OCL_ICD_VENDORS:-$here/opencl-vendors/}"
exec python3 "$here/measure.py" --library "$library" "$@"
