#!/usr/bin/env bash
# code_hash.sh GENERATOR FOLDER: the tables of a generator's kernels, with the hash of their compiled code, are the same
# wherever they are made, and others for other code.
set -euo pipefail
generator=$1 folder=$2
rm -rf "$folder"
hashes() { sed -nE 's/.* (ashlar_[a-z0-9_]+) = .*, ([0-9]+)ull, .*\};/\1 \2/p' "$1"/*.cpp; }
for target in cpu opencl cuda; do
  for where in one another/deeper; do
    mkdir -p "$folder/$where"
    "$generator" compile $target 80 "$folder/$where/$target" /nonexistent
  done
  [[ -n $(hashes "$folder/one/$target") ]] || { echo "no hash in the tables of $target"; exit 1; }
  diff <(hashes "$folder/one/$target") <(hashes "$folder/another/deeper/$target")
done
"$generator" compile cuda 86 "$folder/newer" /nonexistent
if [[ $(hashes "$folder/newer") == $(hashes "$folder/one/cuda") ]]; then
  echo "PTX for another GPU has the same hash"
  exit 1
fi
