#!/usr/bin/env bash
# make-bundle.sh BUILD OUT: a self-contained folder that trains and runs the conformance cases on a machine that has a
# GPU driver and nothing else of ours: programs (stripped), the shared libraries they need, the OpenCL loader, data.
set -euo pipefail
build=$1 out=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=(ashlar-conformance ashlar-train)
packages=(ocl-icd-libopencl1 zlib1g dataset-fashion-mnist libcli11-dev nlohmann-json3-dev libgtest-dev)

rm -rf "$out"
mkdir -p "$out"/{lib,data/fashion-mnist,opencl-vendors,licences}
# Most of a program is kernels, and the second one's are the first one's: packed together they take a sixth. run.sh unpacks
# them.
stripped=$(mktemp -d)
trap 'rm -rf "$stripped"' EXIT
for program in "${programs[@]}"; do
  strip -o "$stripped/$program" "$build/bin/$program"
done
tar -c -C "$stripped" "${programs[@]}" | xz --lzma2=preset=1,dict=128MiB > "$out/programs.tar.xz"

# Everything but the C library, which must be the machine's own. The OpenCL loader is opened by name at run time.
for program in "${programs[@]}"; do
  ldd "$build/bin/$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'
done | grep -Ev '/(libc|libm|libdl|librt|libpthread)\.so' | sort -u | xargs -r cp -L -t "$out/lib"
loader=$(ldconfig -p | awk '/libOpenCL\.so\.1 .*x86-64/ && !found {print $NF; found = 1}')
cp -L "$loader" "$out/lib/libOpenCL.so.1"
strip --strip-unneeded "$out"/lib/*

cp /usr/share/datasets/fashion-mnist/*.gz "$out/data/fashion-mnist/"
# Where NVIDIA's container runtime puts its OpenCL driver; run.sh looks elsewhere too.
echo /usr/local/nvidia/lib64/libnvidia-opencl.so.1 > "$out/opencl-vendors/nvidia.icd"
cp "$here/bundle-run.sh" "$out/run.sh"
cp "$here/../LICENSE" "$here/../THIRD_PARTY_NOTICES.md" "$out/licences/"
for package in "${packages[@]}"; do
  cp "/usr/share/doc/$package/copyright" "$out/licences/$package.txt"
done
git -C "$here" describe --always --dirty > "$out/revision" 2> /dev/null || echo unknown > "$out/revision"

size=$(du -sm "$out" | cut -f1)
echo "$out: $size MB"
if ((size >= 50)); then
  echo "error: a bundle must stay under 50 MB" >&2
  exit 1
fi
