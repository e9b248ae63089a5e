#!/usr/bin/env bash
# missing-packages.sh GROUP...: the packages of apt-packages.txt in these groups that aren't installed, one a line.
set -euo pipefail
list=$(dirname "${BASH_SOURCE[0]}")/../apt-packages.txt
if ! command -v dpkg-query > /dev/null; then
  echo "No dpkg here: install what apt-packages.txt lists by this system's means." >&2
  exit 0
fi
declare -A wanted
while read -r group package _; do
  [[ $group == \#* || " $* " != *" $group "* ]] || wanted[$package]=1
done < "$list"
while read -r package status; do
  [[ $status != installed ]] || unset "wanted[$package]"
done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${!wanted[@]}" 2> /dev/null || true)
[[ ${#wanted[@]} == 0 ]] || printf "%s\n" "${!wanted[@]}"
