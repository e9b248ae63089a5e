#!/usr/bin/env bash
# make-bench-bundle.sh BUILD OUT: a folder that measures the benchmarks on a machine that has a GPU driver and a Python
# with PyTorch, and nothing of ours: the library (stripped, packed), the scripts, an OpenCL loader.
set -euo pipefail
build=$1 out=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rm -rf "$out"
mkdir -p "$out"/{lib,opencl-vendors}
strip -o "$out/lib/libashlar_bench.so" "$build/lib/libashlar_bench.so"
xz -T0 -6 "$out/lib/libashlar_bench.so"
cp "$here"/../benchmarks/*.py "$out/"
loader=$(ldconfig -p | awk '/libOpenCL\.so\.1 .*x86-64/ && !found {print $NF; found = 1}')
cp -L "$loader" "$out/lib/libOpenCL.so.1"
echo /usr/local/nvidia/lib64/libnvidia-opencl.so.1 > "$out/opencl-vendors/nvidia.icd"
cp "$here/bench-bundle-run.sh" "$out/run.sh"
git -C "$here" describe --always --dirty > "$out/revision"
du -sh "$out"
