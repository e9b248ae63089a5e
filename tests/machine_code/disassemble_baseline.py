#!/usr/bin/env python3
"""Disassembles baseline objects: every instruction must be one that any x86-64 processor has (SSE2 at most).

    disassemble_baseline.py [--select REGEX] [--except REGEX] build/**/*.a

--select and --except choose members of archives by name. Fails on the first hundred foreign instructions, and when no
instruction was seen: then the check would say nothing.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from archives import members

INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\t((?:[0-9a-f]{2} )+)\s*\t(\S+)")
LEGACY_PREFIXES = {0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3}
# In 64-bit mode these first bytes are always VEX (AVX, AVX2, FMA, BMI) or EVEX (AVX-512).
VEX_OR_EVEX = {0xC4, 0xC5, 0x62}
# Beyond SSE2 and not in the 0F 38 and 0F 3A opcode maps, which later extensions fill.
LATER = {"addsubpd", "addsubps", "haddpd", "haddps", "hsubpd", "hsubps", "lddqu", "lzcnt", "movddup", "movshdup",
         "movsldup", "popcnt", "rdrand", "rdseed"}


def is_foreign(encoding, mnemonic):
    """True when the instruction isn't in the x86-64 baseline."""
    at = 0
    while at < len(encoding) and encoding[at] in LEGACY_PREFIXES:
        at += 1
    if encoding[at:at + 1] and encoding[at] in VEX_OR_EVEX:
        return True
    if encoding[at:at + 1] and 0x40 <= encoding[at] <= 0x4F:  # REX
        at += 1
    return encoding[at:at + 2] in (b"\x0f\x38", b"\x0f\x3a") or mnemonic in LATER


def check(name, content):
    """Returns (instructions seen, lines about foreign ones)."""
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(content)
        file.flush()
        text = subprocess.run(["objdump", "-d", "--wide", file.name], capture_output=True, text=True, check=True).stdout
    seen, foreign = 0, []
    for line in text.splitlines():
        if match := INSTRUCTION.match(line):
            seen += 1
            if is_foreign(bytes.fromhex(match.group(1)), match.group(2)):
                foreign.append(f"{name}: {line.strip()}")
    return seen, foreign


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--select", default="", help="only members whose name matches")
    parser.add_argument("--except", dest="excluded", default="^$", help="no members whose name matches")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()

    objects = [(name, content) for file in arguments.files for name, content in members(file)
               if re.search(arguments.select, name) and not re.search(arguments.excluded, name)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda item: check(*item), objects))
    seen = sum(count for count, _ in results)
    foreign = [line for _, lines in results for line in lines]
    for line in foreign[:100]:
        print("not in the baseline:", line)
    print(f"{len(objects)} objects, {seen} instructions, {len(foreign)} foreign")
    return 1 if foreign or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
