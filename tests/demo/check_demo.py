#!/usr/bin/env python3
"""Runs ./dev demo, which has run before, and checks what README says of it: it installs nothing any more, and its last
line says a test accuracy of at least 0.89 on Fashion-MNIST; what it prints before has the hybrid trainer's phases. Where
the environment's ASHLAR_MNIST names a folder with MNIST itself, at least 0.975 on that."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def accuracy_of(arguments, installers):
    """What the demo's last line says. `installers`: a folder for what would show that something was installed."""
    called = installers / "called"
    for program in ("apt-get", "apt", "dpkg"):
        (installers / program).write_text(f'#!/bin/sh\necho "{program} $*" >> "{called}"\nexit 1\n')
        (installers / program).chmod(0o755)
    environment = os.environ | {"PATH": f"{installers}:{os.environ['PATH']}", "PIP_LOG": str(called)}
    run = subprocess.run(["./dev", "demo", *arguments], capture_output=True, text=True, cwd=ROOT, env=environment,
                         stdin=subprocess.DEVNULL)
    command = " ".join(["./dev demo", *arguments])
    if called.exists():
        sys.exit(f"{command} installed something:\n{called.read_text()[:2000]}")
    if run.returncode != 0:
        sys.exit(f"{command}: exit status {run.returncode}\n{run.stdout[-4000:]}{run.stderr[-4000:]}")
    for phase in ("warm-up is over", "steps predicted"):
        if phase not in run.stdout:
            sys.exit(f"{command} doesn't say '{phase}':\n{run.stdout[-4000:]}")
    last = run.stdout.rstrip("\n").rsplit("\n", 1)[-1]
    said = re.fullmatch(r"test accuracy (\d\.\d{4})", last)
    if not said:
        sys.exit(f"{command} ends with '{last}', not with its test accuracy")
    return float(said.group(1))


def main():
    wanted = [("Fashion-MNIST", [], 0.89)]
    if folder := os.environ.get("ASHLAR_MNIST"):
        wanted.append(("MNIST", ["--data", folder], 0.975))
    else:
        print("MNIST itself: not tried, ASHLAR_MNIST names no folder with it")
    failed = False
    for name, arguments, least in wanted:
        with tempfile.TemporaryDirectory() as installers:
            accuracy = accuracy_of(arguments, Path(installers))
        print(f"{name}: test accuracy {accuracy}, at least {least} is promised")
        failed |= accuracy < least
    return failed


if __name__ == "__main__":
    sys.exit(main())
