#!/usr/bin/env python3
"""Compiles or runs every fenced code block of the documentation, and of comments in headers.

    run_blocks.py programs --cmake .venv/bin/cmake --ninja .venv/bin/ninja --prefix build/prefix --work build/docs README.md ...
    run_blocks.py commands README.md ...

`programs` are the blocks in cpp and the excerpts, `commands` all others: they use the folder build.

What happens to a block is said by the words after its fence:
    cpp                 a program, or statements that become one: compiled against the installed package, and run
    cpp source=FILE     an excerpt: must stand word for word in FILE, which the build compiles and the tests run
    cmake source=FILE   the same
    sh                  run by bash in the checkout; the first failing command fails the test (`./dev test`, which runs
                        this very script, only lists its tests, and `./dev demo` trains for one epoch)
    sh gpu              run where a CUDA device is; elsewhere its syntax is checked and its programs must exist
    text                not code
A fence that says anything else, or nothing, is an error.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```(.*)$")

SUBSTITUTES = {"./dev test": "./dev test -N", "./dev demo": "./dev demo --epochs 1"}

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(documentation LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
find_package(ashlar REQUIRED COMPONENTS runtime)
"""


@dataclass
class Block:
    file: Path
    line: int
    words: list
    text: str

    @property
    def place(self):
        return f"{self.file.relative_to(ROOT)}:{self.line}"


def blocks_of(file):
    """The fenced blocks of a Markdown file, or of a header's comments."""
    found, start, indent, words, lines = [], None, "", [], []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if file.suffix == ".h":
            line = line.removeprefix("//").removeprefix(" ")
        fence = FENCE.match(line)
        if fence and start is None:
            start, indent, words, lines = number, fence.group(1), fence.group(2).split(), []
        elif fence:
            found.append(Block(file, start, words, "\n".join(lines) + "\n"))
            start = None
        elif start is not None:
            lines.append(line.removeprefix(indent))
    if start is not None:
        raise SystemExit(f"{file}:{start}: the block never ends")
    return found


def program(text):
    """Statements wrapped into a program; their #include lines stay at the top."""
    if re.search(r"\bint main\(", text):
        return text
    lines = text.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    rest = [line for line in lines if not line.startswith("#include")]
    body = "\n".join(rest)
    using = "" if "using namespace" in body else "using namespace ashlar;\n"
    return "\n".join(includes) + f"\n\nint main() {{\n{using}{body}\n}}\n"


def compile_and_run(blocks, cmake, ninja, prefix, work):
    """Builds all programs in one project, then runs each. Returns error texts."""
    if not blocks:
        return []
    source = work / "programs"
    source.mkdir(parents=True)
    listing, names = PROJECT, []
    for index, block in enumerate(blocks):
        name = f"{block.file.stem}_{block.line}".replace("-", "_")
        names.append(name)
        (source / f"{name}.cpp").write_text(program(block.text))
        listing += f"add_executable({name} {name}.cpp)\ntarget_link_libraries({name} PRIVATE ashlar::nn)\n"
    (source / "CMakeLists.txt").write_text(listing)
    build = work / "programs-build"
    for command in ([cmake, "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}",
                     "-DCMAKE_CXX_FLAGS=-O1", f"-DCMAKE_PREFIX_PATH={prefix}"],
                    [cmake, "--build", build, "--", "-k", "0"]):
        run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if run.returncode != 0:
            return [f"a cpp block doesn't compile:\n{run.stdout}{run.stderr}"]
    errors = []
    for block, name in zip(blocks, names):
        run = subprocess.run([build / name], capture_output=True, text=True, cwd=work, timeout=120)
        if run.returncode != 0:
            errors.append(f"{block.place}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return errors


def run_shell(block, has_gpu):
    """Runs a shell block in the checkout, or checks it where it needs a GPU that isn't there."""
    if "gpu" in block.words and not has_gpu:
        run = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
        missing = [word for word in re.findall(r"(?m)^((?:\./)?[\w./-]+/[\w.-]+)", block.text)
                   if not (ROOT / word).exists()]
        return run.stderr + "".join(f"no program {word}\n" for word in missing)
    lines = [re.sub(r"\s+#.*$", "", line) for line in block.text.splitlines()]
    script = "\n".join(SUBSTITUTES.get(line, line) for line in lines)
    run = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, cwd=ROOT,
                         stdin=subprocess.DEVNULL, timeout=600)
    return "" if run.returncode == 0 else f"exit code {run.returncode}\n{run.stdout[-4000:]}{run.stderr[-4000:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("programs", "commands"))
    parser.add_argument("--cmake")
    parser.add_argument("--ninja")
    parser.add_argument("--prefix", help="where the package is installed")
    parser.add_argument("--work", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()

    has_gpu = os.path.exists("/dev/nvidia0")
    programs, shells, counts, errors = [], [], {"cpp": 0, "source": 0, "sh": 0, "sh gpu": 0, "text": 0}, []
    for file in arguments.files:
        for block in blocks_of(file.resolve()):
            language = block.words[0] if block.words else ""
            source = next((word[len("source="):] for word in block.words if word.startswith("source=")), None)
            if source is not None:
                counts["source"] += 1
                path = ROOT / source
                if not path.exists() or block.text not in path.read_text():
                    errors.append(f"{block.place}: these lines don't stand in {source}")
            elif language == "cpp":
                counts["cpp"] += 1
                programs.append(block)
            elif language == "sh":
                counts["sh gpu" if "gpu" in block.words else "sh"] += 1
                shells.append(block)
            elif language == "text":
                counts["text"] += 1
            else:
                errors.append(f"{block.place}: a fence says cpp, cmake source=, sh or text, not '{' '.join(block.words)}'")
    if arguments.what == "programs":
        shutil.rmtree(arguments.work, ignore_errors=True)
        errors += compile_and_run(programs, arguments.cmake, arguments.ninja, arguments.prefix, arguments.work)
    else:
        # Those for a GPU last: others make the programs that they name.
        for block in sorted(shells, key=lambda block: "gpu" in block.words):
            started = time.monotonic()
            if error := run_shell(block, has_gpu):
                errors.append(f"{block.place}: {error}")
            if (seconds := time.monotonic() - started) > 5:
                print(f"{block.place}: {seconds:.0f} s")

    for error in errors:
        print("error:", error)
    print(f"{len(arguments.files)} files; blocks: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return 1 if errors or not sum(counts.values()) - counts["text"] else 0


if __name__ == "__main__":
    sys.exit(main())
