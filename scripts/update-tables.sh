#!/usr/bin/env bash
# update-tables.sh [--check]: writes docs/support.md and docs/status.md from the conformance runs: those of this machine
# (build/conformance, made by ctest) and those brought back from GPU machines (docs/results, with notes on them). With --check it writes
# nothing and fails when docs/support.md says anything else than these runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=build/bin/ashlar-conformance
results=(build/conformance/{cpu,cpu_avx2,cpu_baseline,opencl}.json)
for file in "${results[@]}"; do
  if [[ ! -e $file ]]; then
    echo "update-tables: no $file; run ./dev test -R '^conformance' first" >&2
    exit 1
  fi
done
shopt -s nullglob
results+=(docs/results/*.json)
from=$(IFS=,; echo "${results[*]}")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$program" --from "$from" --support "$made/support.table" --status "$made/status.table"

{
  cat "$made/support.table"
  echo
  echo "From the runs in [status.md](status.md), by scripts/update-tables.sh; a test compares it with the latest run."
} > "$made/support.md"
{
  echo "# Conformance runs"
  echo
  echo "Each row is one run of \`ashlar-conformance\` on one device: cases and gradient checks that passed, failed or were"
  echo "skipped. The runs on a GPU come from \`build/bundle/run.sh\`; their results lie in docs/results."
  echo
  cat "$made/status.table"
  for notes in docs/results/*.md; do
    echo
    cat "$notes"
  done
} > "$made/status.md"

if [[ ${1:-} == --check ]]; then
  if ! diff -u docs/support.md "$made/support.md"; then
    echo "docs/support.md is out of date: run scripts/update-tables.sh and commit it" >&2
    exit 1
  fi
else
  cp "$made/support.md" "$made/status.md" docs/
fi
