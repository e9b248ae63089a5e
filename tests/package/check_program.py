#!/usr/bin/env python3
"""Checks what programs link and how large they are.

    check_program.py [--limit BYTES] [--except NAME]... PROGRAM_OR_FOLDER...

No program may need libHalide or carry a path to it; with --limit, each must be smaller than that when stripped.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def is_program(path):
    """True for an executable ELF file."""
    if not path.is_file() or not os.access(path, os.X_OK):
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def problems(program, limit):
    """Yields what is wrong with one program."""
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    for line in dynamic.splitlines():
        if ("(NEEDED)" in line or "PATH)" in line) and "halide" in line.lower():
            yield f"links Halide: {line.strip()}"
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, program], check=True)
        size = os.path.getsize(stripped.name)
    print(f"{program.name}: {size} bytes stripped")
    if limit and size >= limit:
        yield f"{size} bytes stripped, the limit is {limit}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--except", dest="excluded", action="append", default=[], help="a program of the build-time half")
    parser.add_argument("paths", nargs="+", type=Path)
    arguments = parser.parse_args()
    programs = [p for path in arguments.paths for p in (sorted(path.iterdir()) if path.is_dir() else [path])
                if is_program(p) and p.name not in arguments.excluded]
    errors = [f"{program}: {problem}" for program in programs for problem in problems(program, arguments.limit)]
    for error in errors:
        print("error:", error)
    if not programs:
        print("error: no program to check")
    return 1 if errors or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
