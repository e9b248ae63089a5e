#!/usr/bin/env python3
"""check_configure.py CMAKE WORK: the preset of ./dev demo configures without what the tests alone need, and a folder that
it has configured serves the preset of ./dev test, and the other way round."""
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What tests and benchmarks find beyond the packages of group build.
OF_TESTS = ["GTest", "Eigen3", "benchmark", "Python3"]


def configure(cmake, preset, folder, *arguments):
    run = subprocess.run([cmake, "--preset", preset, "-B", folder, *arguments], capture_output=True, text=True, cwd=ROOT)
    if run.returncode != 0:
        sys.exit(f"cmake --preset {preset} {' '.join(arguments)} fails in {folder}:\n{run.stdout}{run.stderr}")


def targets(cmake, folder):
    run = subprocess.run([cmake, "--build", folder, "--target", "help"], capture_output=True, text=True)
    return {line.split(":")[0] for line in run.stdout.splitlines()}


def expect(cmake, folder, present, absent, when):
    found = targets(cmake, folder)
    if missing := present - found:
        sys.exit(f"{when}: no target {missing}")
    if extra := absent & found:
        sys.exit(f"{when}: target {extra}, which needs more than group build installs")


def main():
    cmake, work = sys.argv[1], Path(sys.argv[2])
    shutil.rmtree(work, ignore_errors=True)
    bare = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in OF_TESTS]
    there = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=OFF" for name in OF_TESTS]
    of_demo, of_tests = {"ashlar-train"}, {"test_runtime", "ashlar-conformance", "ashlar_bench"}

    configure(cmake, "demo", work / "demo_first", *bare)
    expect(cmake, work / "demo_first", of_demo, of_tests, "demo")
    configure(cmake, "all", work / "demo_first", *there)
    expect(cmake, work / "demo_first", of_demo | of_tests, set(), "all after demo")
    configure(cmake, "demo", work / "demo_first", *bare)
    expect(cmake, work / "demo_first", of_demo, of_tests, "demo after all")
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
