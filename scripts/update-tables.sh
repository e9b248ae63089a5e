#!/usr/bin/env bash
# update-tables.sh [--check]: writes docs/support.md and docs/status.md from the conformance runs: those of this machine
# (build/conformance, made by ctest) and those brought back from other machines (docs/results, with notes on them), as far
# as they still hold for the kernels that build/ has now. With --check it writes nothing and fails when docs/support.md, or
# what docs/status.md says of the runs brought back, is anything else. Without it docs/operators.md is written as well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=build/bin/ashlar-conformance
here=build/conformance/cpu.json  # a run for each of the codes that this machine's CPU runs
if [[ ! -e $here ]]; then
  echo "update-tables: no $here; run ./dev test -R '^conformance' first" >&2
  exit 1
fi
shopt -s nullglob
brought=(docs/results/*.json)
list() { local IFS=,; echo "$*"; }
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$program" --from "$(list "$here" "${brought[@]}")" --support "$made/support.table"
"$program" --from "$here" --status "$made/here.table"
"$program" --from "$(list "${brought[@]}")" --status "$made/brought.table"

{
  cat "$made/support.table"
  echo
  echo "From the runs in [status.md](status.md), by scripts/update-tables.sh; a test compares it with the latest run."
} > "$made/support.md"
{
  echo "## Runs brought back"
  echo
  echo "From machines with a GPU by \`build/bundle/run.sh\`, and on CPUs by \`./dev conformance-pocl\` and"
  echo "\`./dev conformance-intel\`. Their results lie in docs/results with a hash of each kernel's compiled code and of the"
  echo "tests that ran; the last column tells which kernels have other code or other cases now. A test compares this section"
  echo "with what is built now."
  echo
  cat "$made/brought.table"
} > "$made/brought.md"
{
  echo "# Conformance runs"
  echo
  echo "Each row is one run of \`ashlar-conformance\` on one device: cases and gradient checks that passed, failed or were"
  echo "skipped. These are from the machine that wrote this page:"
  echo
  cat "$made/here.table"
  echo
  cat "$made/brought.md"
  for notes in docs/results/*.md; do
    echo
    cat "$notes"
  done
} > "$made/status.md"

if [[ ${1:-} == --check ]]; then
  # The section up to the next heading, without the blank line in front of that.
  awk '/^## /{inside = /^## Runs brought back/} inside' docs/status.md | sed -e '${/^$/d}' > "$made/brought.now"
  if ! diff -u docs/support.md "$made/support.md" || ! diff -u "$made/brought.now" "$made/brought.md"; then
    echo "docs/support.md or docs/status.md is out of date: a kernel or a case has changed since the runs that it shows." >&2
    echo "Run scripts/update-tables.sh and commit what it writes. It marks as stale what GPUs have to run again:" >&2
    echo "./dev bundle --changed makes the bundle for them." >&2
    exit 1
  fi
else
  cp "$made/support.md" "$made/status.md" docs/
  scripts/operators.py build/generators/ashlar_ops/include/ashlar
fi
