#!/usr/bin/env bash
# code_cache.sh GENERATOR FOLDER: compiled instances are kept by what they are, not by the program that compiled them; an
# instance that is missing is compiled again, and it alone; two builds may fill a cache at once.
set -euo pipefail
generator=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
compile() { "$1" compile opencl 80 "$folder/$2" /nonexistent --cache="$folder/$3" --slots="$folder/slots"; }
count() { grep -c "$1\$" "$folder/$2/report.tsv" || true; }
same() { diff -r -x '*.key' -x '*.cost' -x keys -x report.tsv "$folder/first" "$folder/$1"; }
fail() { echo "$@"; exit 1; }

compile "$generator" first cache
all=$(wc -l < "$folder/first/report.tsv")
((all > 1)) || fail "compiled $all instances"
[[ $(count compiled first) == "$all" ]] || fail "an empty cache had something"

compile "$generator" again cache
[[ $(count kept again) == "$all" ]] || fail "the same program compiled again"
same again

# Another program with the same kernels, as after an edit that changes none of them.
cp "$generator" "$folder/other"
echo >> "$folder/other"
compile "$folder/other" elsewhere cache
[[ $(count kept elsewhere) == "$all" ]] || fail "the same kernels of another program were compiled again"
same elsewhere

entries=("$folder"/cache/instances/*)
rm -r "${entries[0]}"
compile "$folder/other" missing cache
[[ $(count compiled missing) == 1 ]] || fail "one instance was missing, and $(count compiled missing) were compiled"
same missing

compile "$generator" one both &
first=$!
compile "$folder/other" two both
wait $first
same one
same two
[[ $(find "$folder/both/instances" -mindepth 1 -maxdepth 1 | wc -l) == "$all" ]] || fail "something else is left in the cache"
