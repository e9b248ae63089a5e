#!/usr/bin/env bash
# unreached_functions.sh PROGRAM STAND_IN FOLDER: which GPU functions of the CUDA kernels no conformance case reaches, on a
# GPU with clusters (9.0) nor on ones without them and with less shared memory (8.0, 8.6). A driver stands in that takes
# every launch and computes nothing, so no GPU is needed. Fails when there are any.
set -euo pipefail
program=$1 stand_in=$2 folder=$3
for capability in 80 86 90; do
  ASHLAR_CUDA_LIBRARY=$stand_in ASHLAR_FAKE_CUDA_CAPABILITY=$capability \
    "$program" --devices cuda --unchecked --times 1 --cover "$folder/$capability" > "$folder/$capability.log" 2>&1 ||
    { tail -n 40 "$folder/$capability.log"; exit 1; }
  echo "$capability: $(tail -n 1 "$folder/$capability.log")"
done
missed=$(sort "$folder"/{80,86,90}/missed.txt | uniq -c | awk '$1 == 3 {$1 = ""; print}')
if [[ -n $missed ]]; then
  echo "no case reaches these GPU functions on any of them; give them cases that do:"
  echo "$missed"
  exit 1
fi
