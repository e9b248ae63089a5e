#!/usr/bin/env bash
# run.sh [DEVICE ...]: runs every conformance case on these devices (default: cuda opencl) and writes summary.md beside
# this file (or into $ASHLAR_OUTPUT). Exit code 0 when nothing failed and every device was there.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
output=${ASHLAR_OUTPUT:-$here}
limit=${ASHLAR_TIME_LIMIT:-900}
export LD_LIBRARY_PATH="$here/lib:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# The loader reads only our vendor file: it names NVIDIA's driver wherever this machine has it.
vendors=$(mktemp -d)
trap 'rm -rf "$vendors"' EXIT
for driver in $(cat "$here/opencl-vendors/nvidia.icd") /usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1 \
              /usr/lib64/libnvidia-opencl.so.1; do
  if [[ -e $driver ]]; then
    echo "$driver" > "$vendors/nvidia.icd"
    break
  fi
done
[[ -e $vendors/nvidia.icd ]] || cp "$here/opencl-vendors/nvidia.icd" "$vendors/"
export OCL_ICD_VENDORS="${OCL_ICD_VENDORS:-$vendors/}"

[[ $# -gt 0 ]] || set -- cuda opencl
code=0
results=()
for device in "$@"; do
  timeout "$limit" "$here/bin/ashlar-conformance" --devices "$device" --results "$output/results-$device.json" \
    > "$output/conformance-$device.log" 2>&1
  status=$?
  [[ $status == 0 ]] || code=1
  tail -n 3 "$output/conformance-$device.log"
  echo "$device: exit code $status, details in $output/conformance-$device.log"
  [[ ! -e $output/results-$device.json ]] || results+=(--from "$output/results-$device.json")
done
{
  echo "# Conformance of $(cat "$here/revision"), $(date -u +%Y-%m-%d)"
  echo
} > "$output/summary.md"
if [[ ${#results[@]} -gt 0 ]]; then
  "$here/bin/ashlar-conformance" "${results[@]}" --status "$output/status.md" > /dev/null && cat "$output/status.md" >> "$output/summary.md"
fi
cat "$output/summary.md"
exit $code
