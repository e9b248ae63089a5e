#!/usr/bin/env bash
# make-bundle.sh BUILD OUT [CHANGED | --training]: a self-contained folder that runs the conformance cases on a machine that
# has a GPU driver and nothing else of ours: the program (stripped), the shared libraries it needs, the OpenCL loader.
# With CHANGED, a file with a line "cuda softmax,sum" for each code target, it only runs the cases of these kernels. With
# --training it trains instead, on data that it brings along, and compares trainings (ashlar-hybrid).
set -euo pipefail
build=$1 out=$2 changed=${3:-} training=""
if [[ $changed == --training ]]; then training=1 changed=""; fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=(ashlar-conformance-bundled)
packages=(ocl-icd-libopencl1 libcli11-dev nlohmann-json3-dev libgtest-dev)
if [[ -n $training ]]; then
  programs=(ashlar-train ashlar-hybrid)
  packages=(ocl-icd-libopencl1 libcli11-dev nlohmann-json3-dev zlib1g libjpeg62-turbo libminizip1 libpng16-16 dataset-fashion-mnist)
fi

rm -rf "$out"
mkdir -p "$out"/{opencl-vendors,licences}
# Most of a program is kernels, many of them alike, and two programs have most in common, which the packer sees when its
# window holds both: packed, they take a sixth. run.sh unpacks them.
stripped=$(mktemp -d)
mkdir "$stripped/lib"
trap 'rm -rf "$stripped"' EXIT
for program in "${programs[@]}"; do
  strip -o "$stripped/${program%-bundled}" "$build/bin/$program"
done

# Everything but the C library, which must be the machine's own. The OpenCL loader is opened by name at run time.
for program in "${programs[@]}"; do
  ldd "$stripped/${program%-bundled}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'
done | grep -Ev '/(libc|libm|libdl|librt|libpthread)\.so' | sort -u | xargs -r cp -L -t "$stripped/lib"
loader=$(ldconfig -p | awk '/libOpenCL\.so\.1 .*x86-64/ && !found {print $NF; found = 1}')
cp -L "$loader" "$stripped/lib/libOpenCL.so.1"
strip --strip-unneeded "$stripped"/lib/*
tar -c -C "$stripped" "${programs[@]%-bundled}" lib | xz --lzma2=preset=6,dict=384MiB,lc=4,pb=0 > "$out/programs.tar.xz"

if [[ -n $changed ]]; then
  cp "$changed" "$out/changed"
elif [[ -n $training ]]; then
  mkdir "$stripped/fashion-mnist"  # unpacked first: gzip leaves a sixth of what it could save
  for file in /usr/share/datasets/fashion-mnist/*.gz; do
    gzip -dc "$file" > "$stripped/fashion-mnist/$(basename "$file" .gz)"
  done
  tar -c -C "$stripped" fashion-mnist | xz > "$out/data.tar.xz"
fi
# Where NVIDIA's container runtime puts its OpenCL driver; run.sh looks elsewhere too.
echo /usr/local/nvidia/lib64/libnvidia-opencl.so.1 > "$out/opencl-vendors/nvidia.icd"
cp "$here/bundle-run.sh" "$out/run.sh"
cp "$here/../LICENSE" "$here/../THIRD_PARTY_NOTICES.md" "$out/licences/"
for package in "${packages[@]}"; do
  cp "/usr/share/doc/$package/copyright" "$out/licences/$package.txt"
done
git -C "$here" describe --always --dirty > "$out/revision" 2> /dev/null || echo unknown > "$out/revision"

# The GPU machine takes 64 MiB at a time, the sources among them; data can go before.
sources=$({ git -C "$here/.." ls-files -z 2> /dev/null || true; } | (cd "$here/.." && du -cb --files0-from=-) | tail -1 | cut -f1)
size=$(du -cb --exclude=data.tar.xz "$out" | tail -1 | cut -f1)
echo "$out: $(du -sm "$out" | cut -f1) MB"
if ((size + sources > 64 << 20)); then
  echo "error: $((size >> 10)) KiB of a bundle and $((sources >> 10)) of sources are more than 64 MiB" >&2
  exit 1
fi
