#!/usr/bin/env bash
# changed-kernels.sh BUILD [RESULTS ...]: which kernels have to run again on CUDA and OpenCL since these results (default:
# those of docs/results from GPUs). Writes BUILD/conformance/changed, a line "cuda softmax,sum" for each target, empty when
# nothing has changed, and the source that leaves everything else out of BUILD/bin/ashlar-conformance-bundled.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
shift
shopt -s nullglob extglob
[[ $# -gt 0 ]] || set -- docs/results/!(cpu-*).json
# What this machine's CPU ran last tells which kernels call which. Its OpenCL device isn't the one that is asked about.
ran=$build/conformance/cpu.json
[[ ! -e $ran ]] || set -- "$@" "$ran"
from=$(IFS=,; echo "$*")
mkdir -p "$build/conformance" "$build/tests/conformance"
"$build/bin/ashlar-conformance" --from "$from" --changed cuda,opencl \
  --left-out "$build/tests/conformance/left_out.cpp" > "$build/conformance/changed"
cat "$build/conformance/changed"
if ! grep -q ' .' "$build/conformance/changed"; then
  echo "nothing has changed since these results: no bundle to make"
  : > "$build/conformance/changed"
fi
