#!/usr/bin/env python3
"""What compiled kernels cost: processor seconds to compile and bytes of objects, by kernel, target and family.

kernel-costs.py FOLDER [--budget generators/budget.json [--check]]
FOLDER is a kernel library's (build/generators/ashlar_ops): below it, <file>_<code target>/report.tsv were written by the
compilers, whose seconds are those of the day when an instance was compiled, tools included, wherever it came from now.

The budget is of one operator of a family: a kernel with its gradients (its name with _grad behind), all dtypes, settings
and targets. --check fails where one has more bytes, or far more seconds: a busy machine takes longer.
"""
import argparse
import collections
import json
import pathlib
import sys

CODE_TARGETS = {"cpu_avx512": "cpu", "cpu_avx2": "cpu", "cpu": "cpu", "opencl": "opencl", "cuda": "cuda"}
TARGETS = ["cpu", "opencl", "cuda"]


class Cost:
    def __init__(self):
        self.seconds, self.bytes = 0.0, 0

    def add(self, other):
        self.seconds += other.seconds
        self.bytes += other.bytes


def read(folder):
    """{(file, kernel): {target: Cost}}"""
    costs = collections.defaultdict(lambda: collections.defaultdict(Cost))
    for report in sorted(folder.glob("*/report.tsv")):
        target = next(t for t in CODE_TARGETS if report.parent.name.endswith("_" + t))
        file = report.parent.name.removesuffix("_" + target)
        for line in report.read_text().splitlines():
            kernel, _, _, seconds, size, _ = line.split("\t")
            cost = costs[file, kernel][CODE_TARGETS[target]]
            cost.seconds += float(seconds)
            cost.bytes += int(size)
    return costs


def operators(costs):
    """Kernels with their gradients: {(file, operator): {target: Cost}}"""
    result = collections.defaultdict(lambda: collections.defaultdict(Cost))
    for (file, kernel), by_target in costs.items():
        base = kernel.split("_grad")[0]
        operator = base if (file, base) in costs else kernel
        for target, cost in by_target.items():
            result[file, operator][target].add(cost)
    return result


def total(by_target):
    sum_ = Cost()
    for cost in by_target.values():
        sum_.add(cost)
    return sum_


def family_of(file, budget):
    return next((name for name, family in budget["families"].items() if file in family["files"]), "other")


def row(name, by_target):
    cells = [f"{by_target[t].seconds:7.1f} s {by_target[t].bytes / 1000:7.0f} KB" if t in by_target else " " * 20
             for t in TARGETS]
    all_ = total(by_target)
    return f"{name:28}" + " ".join(cells) + f" {all_.seconds:7.1f} s {all_.bytes / 1000:7.0f} KB"


def print_report(costs, budget):
    print(f"{'kernel':28}" + "".join(f"{t:>21}" for t in TARGETS) + f"{'all':>20}")
    families = collections.defaultdict(lambda: collections.defaultdict(Cost))
    whole = collections.defaultdict(Cost)
    for (file, kernel), by_target in costs.items():
        print(row(kernel, by_target))
        for target, cost in by_target.items():
            families[family_of(file, budget)][target].add(cost)
            whole[target].add(cost)
    print()
    for name, by_target in families.items():
        print(row(f"family {name}", by_target))
    print(row("all kernels", whole))


def check(costs, budget):
    faults = []
    for (file, operator), by_target in operators(costs).items():
        name = family_of(file, budget)
        family, cost = budget["families"][name], total(by_target)
        if cost.bytes > family["bytes"]:
            faults.append(f"{operator} ({file}.cpp) has {cost.bytes} bytes; the family {name} may have {family['bytes']}")
        most = family["seconds"] * budget["busy"]
        if cost.seconds > most:
            faults.append(f"{operator} ({file}.cpp) took {cost.seconds:.1f} s of a processor to compile; the family {name} "
                          f"may take {family['seconds']} s, {most:.0f} s where the machine is busy")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--budget", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent.parent / "generators" / "budget.json")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    budget = json.loads(arguments.budget.read_text())
    costs = read(arguments.folder)
    if not costs:
        sys.exit(f"no report.tsv below {arguments.folder}: build the kernels first")
    if not arguments.check:
        print_report(costs, budget)
        return
    faults = check(costs, budget)
    print("\n".join(faults) or f"{len(operators(costs))} operators are within {arguments.budget}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
