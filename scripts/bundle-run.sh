#!/usr/bin/env bash
# Runs this bundle where nothing else of ours is installed.
#   run.sh [DEVICE ...] [-- ARGUMENT ...]   every conformance case on these devices (default: cuda opencl); arguments go
#                                           to ashlar-conformance. Writes summary.md beside this file, or into
#                                           $ASHLAR_OUTPUT. Fails when a case fails or a device isn't there.
#   run.sh draws N [DEVICE ...] [-- ARGUMENT ...]
#                                           N random draws (sizes, layouts, axes, options, gradients) on each device in
#                                           place of the cases; -- --seed S repeats some. Fails when a draw fails.
#   run.sh vendor                           the cases of kernels that a vendor's library can compute too, computed by it
#   run.sh sanitize [PART/PARTS]            on CUDA, first all cases, to see which GPU functions each one reaches; then
#                                           the cheapest ones that together reach every function of every kernel, under
#                                           compute-sanitizer's memcheck and racecheck; fails on any finding. A part is
#                                           every PARTS-th of them, from 0/PARTS on; parts of one $ASHLAR_OUTPUT share
#                                           the first step.
# A bundle of what has changed (./dev bundle --changed) has the cases and draws of these kernels alone. A bundle for training
# (build/bundle-training) knows only
#   run.sh train [PROGRAM] [ARGUMENT ...]   a program of ashlar-train, mlp where none is named; those that learn from
#                                           images get the bundled Fashion-MNIST
#   run.sh compare [ARGUMENT ...]           ashlar-hybrid compare with the same data
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
output=${ASHLAR_OUTPUT:-$here}
limit=${ASHLAR_TIME_LIMIT:-900}  # seconds for one device
parts=${ASHLAR_PARTS:-1}         # so many processes share the cases of a device; all devices run at once then
export LD_LIBRARY_PATH="$output/bin/lib:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# unpack ARCHIVE FOLDER: unless it was done already
unpack() {
  mkdir -p "$2"
  [[ ! $2/unpacked -nt $1 ]] || return 0
  if command -v xz > /dev/null; then
    tar -x -J -m -f "$1" -C "$2"
  else
    python3 -m tarfile -e "$1" "$2"
  fi || exit 2
  touch "$2/unpacked"
}
unpack "$here/programs.tar.xz" "$output/bin"

# The OpenCL loader reads the vendor files of one folder: ours names NVIDIA's driver wherever this machine has it.
if [[ -z ${OCL_ICD_VENDORS:-} ]]; then
  vendors=$(mktemp -d)
  trap 'rm -rf "$vendors"' EXIT
  cp "$here/opencl-vendors/nvidia.icd" "$vendors/"
  for driver in "$(cat "$here/opencl-vendors/nvidia.icd")" /usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1 \
                /usr/lib64/libnvidia-opencl.so.1; do
    if [[ -e $driver ]]; then
      echo "$driver" > "$vendors/nvidia.icd"
      break
    fi
  done
  export OCL_ICD_VENDORS="$vendors/"
fi

if [[ ${1:-} == train || ${1:-} == compare ]]; then
  if [[ ! -e $here/data.tar.xz ]]; then
    echo "run.sh $1: that is for build/bundle-training, which ./dev bundle makes beside this one" >&2
    exit 2
  fi
  unpack "$here/data.tar.xz" "$output/data"
  images=(--data "$output/data/fashion-mnist")
  what=$1
  shift
  if [[ $what == compare ]]; then
    "$output/bin/ashlar-hybrid" compare "${images[@]}" "$@"
    exit
  fi
  program=mlp
  if [[ ${1:-} == [a-z]* ]]; then
    program=$1
    shift
  fi
  if [[ $program == xor || $program == char-* ]]; then images=(); fi
  "$output/bin/ashlar-train" "$program" "${images[@]}" "$@"
  exit
fi

if [[ ${1:-} == vendor ]]; then
  # PyTorch's wheels bring cuBLASLt along, in a folder that the loader doesn't search.
  libraries=(/usr/local/cuda/lib64 /usr/local/lib/python3*/*-packages/nvidia/*/lib /usr/lib/python3*/*-packages/nvidia/*/lib)
  LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$(IFS=:; echo "${libraries[*]}")" \
    "$output/bin/ashlar-conformance" --devices cuda --vendor
  exit
fi

# What a bundle of what has changed runs on a device: "--kernels=softmax,sum"; nothing in a whole bundle.
chosen_kernels() { [[ ! -e $here/changed ]] || awk -v device="$1" '$1 == device {print "--kernels=" $2}' "$here/changed"; }
changed_nothing() { [[ -e $here/changed ]] && ! grep -q "^$1 ." "$here/changed"; }

if [[ ${1:-} == sanitize ]]; then
  if ! command -v compute-sanitizer > /dev/null; then
    echo "run.sh sanitize: no compute-sanitizer on the PATH; it comes with a CUDA toolkit" >&2
    exit 2
  fi
  IFS=/ read -r part parts <<< "${2:-0/1}"
  cover=$output/cover
  if [[ ! $cover/tests.txt -nt $output/bin/unpacked ]]; then
    # shellcheck disable=SC2046
    if ! timeout "$limit" "$output/bin/ashlar-conformance" --devices cuda $(chosen_kernels cuda) --cover "$cover" \
        > "$output/cover.log" 2>&1; then
      echo "cover: a case fails without compute-sanitizer, or there's no device; details in $output/cover.log" >&2
      rm -f "$cover/tests.txt"
      exit 1
    fi
    echo "cover: $(tail -n 1 "$output/cover.log")"
    sed 's/^/  not reached on this device: /' "$cover/missed.txt"
  fi
  awk -v part="$part" -v parts="$parts" '(NR - 1) % parts == part' "$cover/tests.txt" > "$cover/part-$part.txt"
  for tool in memcheck racecheck; do
    log=$output/$tool-$part-of-$parts.log
    begin=$SECONDS
    compute-sanitizer --tool "$tool" --error-exitcode 1 "$output/bin/ashlar-conformance" --devices cuda \
      --gtest_brief=1 --only "$cover/part-$part.txt" > "$log" 2>&1
    code=$?
    echo "$tool $part/$parts: exit code $code after $((SECONDS - begin)) s; $(
      grep -E '^\[==========\].*ran|SUMMARY' "$log" | tr '\n' ' ')"
    [[ $code == 0 ]] || exit $code
  done
  exit
fi

draws=0
if [[ ${1:-} == draws ]]; then
  draws=${2:-}
  if ! [[ $draws =~ ^[1-9][0-9]*$ ]]; then
    echo "run.sh draws N: how many? Got '$draws'" >&2
    exit 2
  fi
  shift 2
fi

devices=()
while [[ $# -gt 0 && $1 != -- ]]; do
  devices+=("$1")
  shift
done
[[ $# == 0 ]] || shift
[[ ${#devices[@]} -gt 0 ]] || devices=(cuda opencl)

if ((draws > 0)); then
  code=0
  for device in "${devices[@]}"; do
    kernels=()
    if [[ -e $here/changed ]]; then
      names=$(awk -v target="${device%%:*}" '$1 == target {print $2}' "$here/changed")
      kernels=(${names:+--kernels "$names"})
    fi
    timeout "$limit" "$output/bin/ashlar-conformance" --devices "$device" --draws "$draws" "${kernels[@]}" "$@" 2>&1 |
      tee "$output/draws-$device.log"
    status=${PIPESTATUS[0]}
    [[ $status == 0 ]] || code=1
    echo "$device: exit code $status, kept in $output/draws-$device.log"
  done
  exit $code
fi

# run_part DEVICE PART ARGUMENT ...: every so-manieth test
run_part() {
  local device=$1 part=$2 environment=()
  shift 2
  if ((parts > 1)); then environment=(GTEST_TOTAL_SHARDS="$parts" GTEST_SHARD_INDEX="$part"); fi
  # shellcheck disable=SC2046
  env "${environment[@]}" timeout "$limit" "$output/bin/ashlar-conformance" --devices "$device" \
    $(chosen_kernels "$device") --results "$output/part-$device-$part.json" \
    --revision "$(cat "$here/revision")" "$@" > "$output/conformance-$device-$part.log" 2>&1
}

code=0
results=()
for device in "${devices[@]}"; do
  rm -f "$output/results-$device.json" "$output"/part-"$device"-*.json "$output"/conformance-"$device"-*.log
done
declare -A running=() failed=()
finish() {  # DEVICE: waits for its parts
  local process
  for process in ${running[$1]}; do
    wait "$process" || failed[$1]=$?
  done
}
for device in "${devices[@]}"; do
  if changed_nothing "$device"; then
    echo "$device: nothing has changed since the results that this bundle was made against"
    continue
  fi
  for ((part = 0; part < parts; part++)); do
    run_part "$device" "$part" "$@" &
    running[$device]+=" $!"
  done
  ((parts > 1)) || finish "$device"
done
for device in "${!running[@]}"; do
  ((parts == 1)) || finish "$device"
  status=${failed[$device]:-0}
  printf -v from '%s,' "$output"/part-"$device"-*.json
  json=$output/results-$device.json
  # Cases of a missing device are skipped, which is no success here.
  if [[ $status == 0 ]] && grep -q "no $device.* device or driver" "$output"/{part,conformance}-"$device"-*; then status=4; fi
  [[ $status == 0 ]] || code=1
  echo "$device: exit code $status, details in $output/conformance-$device-*.log"
  if "$output/bin/ashlar-conformance" --from "${from%,}" --results "$json" > /dev/null; then results+=("$json"); fi
done

{
  echo "Revision $(cat "$here/revision"), $(date -u +%Y-%m-%d), exit code $code"
  echo
} > "$output/summary.md"
if [[ ${#results[@]} -gt 0 ]]; then
  from=$(IFS=,; echo "${results[*]}")
  "$output/bin/ashlar-conformance" --from "$from" --status "$output/status.md" > /dev/null
  cat "$output/status.md" >> "$output/summary.md"
fi
cat "$output/summary.md"
exit $code
