#!/usr/bin/env python3
"""Checks the machine code of every CUDA kernel by what the build's assembler said of it, and by what objects carry.

    check_cuda_code.py --arch 80 --arch 90 --report build/ptx.md --code build/libkernels.a FOLDER...

FOLDERs hold a .ptx and a .ptxas (the report of `ptxas -v`) for each compiled instance. Fails when a kernel spills registers
to memory, when the largest blocks have more of them than a multiprocessor, when an instance wasn't assembled for one of the
architectures, when there is no instance at all (then the check would say nothing), and when the archives or objects of --code
don't carry, for each instance, machine code for every architecture and PTX for later ones. The report is a Markdown table, one line per GPU function and architecture.
"""
import argparse
import re
import struct
import sys
from pathlib import Path

from archives import members

COMPILING = re.compile(r"Compiling entry function '([^']+)' for 'sm_(\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")

# Functions of the largest blocks, by their names, and the threads that these have (schedules/reduction.cpp).
LARGEST_BLOCKS = {"_few_block_": 1024}
REGISTERS_OF_BLOCK = 65536

# A container ("fatbin"): a head, then entries of one kind each.
MAGIC = struct.pack("<IH", 0xBA55ED50, 1)
HEAD = struct.Struct("<IHHQ")           # magic, version, bytes of head, bytes of entries
ENTRY = struct.Struct("<HHIQIIHHI")     # kind, version, bytes of head, bytes of content, …, architecture
KINDS = {1: "ptx", 2: "machine code"}


def rows_of(report):
    """Rows of one .ptxas: (instance, function, architecture, registers, then bytes shared, spilled, stack)."""
    rows, name, architecture, stack, spilled = [], None, None, 0, 0
    for line in report.read_text().splitlines():
        if match := COMPILING.search(line):
            name, architecture, stack, spilled = match.group(1), match.group(2), 0, 0
        elif match := SPILLS.search(line):
            stack, spilled = int(match.group(1)), int(match.group(2)) + int(match.group(3))
        elif (match := REGISTERS.search(line)) and name:
            shared = SHARED.search(line)
            rows.append((report.stem, name, architecture, int(match.group(1)), int(shared.group(1)) if shared else 0,
                         spilled, stack))
    return rows


def containers(content):
    """Yields the set of (kind, architecture) of each container inside the bytes of an object file."""
    at = content.find(MAGIC)
    while at >= 0:
        _, _, head, size = HEAD.unpack_from(content, at)
        entries, inside = set(), at + head
        while inside < at + head + size:
            kind, _, entry_head, entry_size, *_, architecture = ENTRY.unpack_from(content, inside)
            entries.add((KINDS.get(kind, kind), str(architecture)))
            inside += entry_head + entry_size
        yield entries
        at = content.find(MAGIC, inside)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", action="append", required=True, help="e.g. 80; may be given more than once")
    parser.add_argument("--spilled", action="append", default=[], metavar="[INSTANCE=]BYTES",
                        help="how many bytes a function may spill, or one of that instance")
    parser.add_argument("--report", type=Path, help="where the table goes")
    parser.add_argument("--code", type=Path, action="append", default=[], help="archive or object with these kernels")
    parser.add_argument("folders", nargs="+", type=Path)
    arguments = parser.parse_args()
    allowed = {instance: int(size) for instance, _, size in (each.rpartition("=") for each in arguments.spilled)}

    rows, errors, instances = [], [], 0
    for source in sorted(file for folder in arguments.folders for file in folder.rglob("*.ptx")):
        instances += 1
        report = source.with_suffix(".ptxas")
        found = rows_of(report) if report.exists() else []
        rows += found
        errors += [f"{source.stem}: not assembled for {arch}" for arch in arguments.arch
                   if arch not in {row[2] for row in found}]
    errors += [f"{row[0]}, {row[1]}, {row[2]}: {row[5]} bytes of register spills" for row in rows
               if row[5] > allowed.get(row[0], allowed.get("", 0))]
    errors += [f"{row[0]}, {row[1]}, {row[2]}: {row[3]} registers in each of {threads} threads" for row in rows
               for name, threads in LARGEST_BLOCKS.items() if name in row[1] and row[3] * threads > REGISTERS_OF_BLOCK]
    if not instances:
        errors.append("no PTX in these folders")
    wanted = {("machine code", arch) for arch in arguments.arch}
    carried = [entries for file in arguments.code for _, content in members(file) for entries in containers(content)]
    errors += [f"a container has {sorted(entries)}" for entries in carried
               if not wanted <= entries or "ptx" not in {kind for kind, _ in entries}]
    if arguments.code and len(carried) != instances:
        errors.append(f"{instances} instances were compiled, and {len(carried)} are in the archives")
    if arguments.report:
        table = ["| object | GPU function | architecture | registers | shared memory, bytes | spills, bytes | stack, bytes |",
                 "|---|---|---|---|---|---|---|"]
        table += ["| " + " | ".join(map(str, row)) + " |" for row in sorted(rows)]
        arguments.report.write_text("\n".join(table) + "\n")

    for error in errors[:100]:
        print("error:", error)
    if rows:
        worst = max(rows, key=lambda row: row[3])
        print(f"{instances} instances, {len(rows)} GPU functions over {len(arguments.arch)} architectures; most registers: "
              f"{worst[3]} in {worst[0]} (sm_{worst[2]})")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
