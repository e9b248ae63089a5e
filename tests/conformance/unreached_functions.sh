#!/usr/bin/env bash
# unreached_functions.sh [--update] PROGRAM STAND_IN FOLDER: which GPU functions of the CUDA kernels no conformance case
# reaches, on a GPU with clusters (9.0) nor on ones without them and with less shared memory (8.0, 8.6). A driver stands in
# that takes every launch and computes nothing, so no GPU is needed. Fails when they are others than those that
# unreached_functions.txt admits to, below the reasons that it gives; --update writes that file, but its reasons.
set -euo pipefail
export LC_ALL=C  # one order of lines
update=0
if [[ $1 == --update ]]; then
  update=1
  shift
fi
program=$1 stand_in=$2 folder=$3
known=$(dirname "${BASH_SOURCE[0]}")/unreached_functions.txt
for capability in 80 86 90; do
  ASHLAR_CUDA_LIBRARY=$stand_in ASHLAR_FAKE_CUDA_CAPABILITY=$capability \
    "$program" --devices cuda --unchecked --times 1 --cover "$folder/$capability" > "$folder/$capability.log" 2>&1 ||
    { tail -n 40 "$folder/$capability.log"; exit 1; }
  echo "$capability: $(tail -n 1 "$folder/$capability.log")"
done
sort "$folder"/{80,86,90}/missed.txt | uniq -c | awk '$1 == 3' | sed -E 's/^ +3 //' > "$folder/unreached.txt"
grep '^#' "$known" | cat - "$folder/unreached.txt" > "$folder/with_reasons.txt"
if [[ $update == 1 ]]; then
  cp "$folder/with_reasons.txt" "$known"
elif ! diff -u "$known" "$folder/with_reasons.txt"; then
  echo "A line with + is a GPU function that no case reaches any more: give it one. A line with - is reached now: take it"
  echo "out of $known."
  exit 1
fi
