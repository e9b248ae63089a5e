#!/usr/bin/env bash
# run.sh --device cuda,opencl --results FOLDER [ARGUMENT ...]: this bundle's measure.py, against PyTorch unless --against says
# else. The same with --resume goes on where an earlier run stopped. run.sh random …: measure_draws.py, sizes drawn at random.
# run.sh memory --device cuda --results FOLDER …: measure_memory.py, device memory of training steps.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
library=${TMPDIR:-/tmp}/libashlar_bench-$(md5sum < "$here/lib/libashlar_bench.so.xz" | cut -c1-12).so
if [[ ! -e $library ]]; then
  # A file of its own: others may begin at once.
  python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' \
    "$here/lib/libashlar_bench.so.xz" "$library.part-$$"
  mv "$library.part-$$" "$library"
fi
export LD_LIBRARY_PATH="$here/lib:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export OCL_ICD_VENDORS="${OCL_ICD_VENDORS:-$here/opencl-vendors/}"
script=measure.py
if [[ ${1:-} == random ]]; then
  script=measure_draws.py
  shift
elif [[ ${1:-} == memory ]]; then
  script=measure_memory.py
  shift
fi
exec python3 "$here/$script" --library "$library" "$@"
