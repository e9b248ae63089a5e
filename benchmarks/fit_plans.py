#!/usr/bin/env python3
"""Fits the numbers of schedules/contraction_model.h to what ashlar-plan-choice has measured (--csv), and prints them.

    fit_plans.py plans.csv [more.csv …] --gigabytes 3350 [--device opencl] [--start schedules/contraction_model.h [--keep PLAN …]] [--judge others.csv]

The form of the model, and the reasons for it, stand in that header. Each plan is fitted by itself first, by random steps that are
kept where the mean error of log(time) falls (errors of more than a factor of e count as one of e), unless --start gives numbers.
Then all are changed in such steps, for what the choice by them loses: the mean of log(time of the plan chosen / time of the best).
A tenth of the draws, and those of --judge, are for judging alone. Needs NumPy."""
import argparse
import csv
import pathlib
import re

import numpy as np

HEADER = pathlib.Path(__file__).resolve().parent.parent / "schedules/contraction_model.h"
# rows, columns, depth of a stage, warps: as schedules/contraction_cuda.h and contraction_opencl.h make the tiles
TILES = {"along_1": (1, 2, 512, 4), "along_1_deep": (1, 1, 2048, 8), "along_1_wide": (1, 4, 256, 2), "along_4": (4, 2, 512, 4),
         "along_8": (8, 2, 512, 8), "along_4_quads": (4, 2, 1024, 8), "along_8_quads": (8, 2, 512, 4), "across_1": (1, 32, 64, 8),
         "across_1_deep": (1, 32, 128, 8), "across_1_wide": (1, 64, 32, 8), "across_4": (4, 32, 32, 8), "across_8": (8, 32, 32, 8),
         "across_8_quads": (8, 32, 128, 8), "across_8_quads_deep": (8, 16, 512, 8),
         "far_across_4": (4, 128, 32, 8),
         "tall_along_4": (2, 4, 512, 4), "tall_across_4": (32, 4, 32, 8), "tall_far_across_4": (128, 4, 32, 8),
         "layer_small": (16, 32, 64, 8), "layer_32": (32, 32, 64, 4), "layer_64": (64, 32, 64, 8),
         "large_nn": (128, 256, 16, 8), "large_tn": (64, 128, 16, 2), "large_nt": (128, 64, 8, 2),
         "large_tt": (128, 64, 16, 2), "medium_nt": (64, 128, 32, 8), "medium_tt": (64, 128, 32, 8), "medium": (64, 128, 16, 4),
         "even_small": (64, 64, 8, 2), "odd_large": (128, 128, 8, 4), "odd_medium": (64, 64, 8, 2), "odd_wide": (32, 64, 8, 2),
         "odd_tall": (64, 32, 8, 2), "few_rows": (16, 32, 96, 4), "small": (32, 64, 32, 4), "smallest": (32, 32, 64, 8)}
OPENCL_TILES = {"large": (64, 128, 16, 4), "odd_medium": (64, 64, 8, 2), "odd_wide": (32, 64, 8, 2), "smallest": (32, 32, 32, 8),
                "tile": (64, 64, 16, 4), "split": (16, 16, 16, 8)}
# rows, columns and unrolled terms of a thread, and whether k is dealt: as contraction_threads.h makes ThreadTiles
THREADS = {"threads": (2, 4, 4, False), "threads_deep": (2, 4, 8, False), "dealt": (4, 4, 2, True), "dealt_row": (1, 4, 4, True)}
THREADS_OF_BLOCK = 256
# an H100 and an H200
MULTIPROCESSORS, CYCLES = 132, 1980  # of a microsecond
START = {"cuda": 1.4, "opencl": 5.0}
STEPS, STEPS_OF_CHOICE = 1200, 12000
MOST_RESIDENT = 8


def read(path):
    """{(path, draw): ((batch, m, n, k, left along k, right along k), {plan: microseconds})}, of the one device"""
    draws = {}
    with open(path) as file:
        for row in csv.DictReader(file):
            if row["device"].split(":")[0] != DEVICE:
                continue
            batch, m, n, k = (int(row[name]) for name in ("batch", "m", "n", "k"))
            left_along_k, right_along_k = row["transpose_a"] == "0", row["transpose_b"] == "1"
            if n == 1:  # is computed as one row
                m, n, left_along_k, right_along_k = 1, m, True, left_along_k
            sizes = batch, m, n, k, left_along_k, right_along_k
            draws.setdefault((path, row["draw"]), (sizes, {}))[1][row["plan"]] = float(row["microseconds"])
    return draws


def work(sizes, plan):
    """Of each draw the blocks of a multiprocessor, the stages of a block, how many times their share they take, the bytes, and the
    operands that lie across k and are copied element by element."""
    batch, m, n, k, left_along_k, right_along_k = np.array(sizes, float).T
    moved = 4 * batch * (m * k + k * n + m * n)
    singles = 1.0 * ((left_along_k == 0) & (m % 4 != 0)) + 1.0 * ((right_along_k == 0) & (n % 4 != 0))
    if plan in THREADS:
        return (*work_of_threads(plan, batch, m, n, k, left_along_k > 0, right_along_k > 0), moved, singles)
    rows, columns, depth, _ = TILES[plan]
    each = np.ceil(np.ceil(m / rows) * np.ceil(n / columns) * batch / MULTIPROCESSORS)
    return each, np.ceil(k / depth), np.ones_like(k), moved, singles


def work_of_threads(plan, batch, m, n, k, left_along_k, right_along_k):
    """As schedules/contraction_threads.h counts it."""
    rows, columns, unroll, is_k_dealt = THREADS[plan]
    tiles_m, tiles_n = np.ceil(m / rows), np.ceil(n / columns)
    tiles, along_k = tiles_m * tiles_n * batch, np.where(n >= m, right_along_k, left_along_k)
    slices = np.ones_like(k)
    if is_k_dealt:
        wanted = np.minimum(np.maximum(132 * 1024 // tiles, np.where(along_k, 16, 1)), k // 2)
        slices = 2 ** np.floor(np.log2(np.clip(wanted, 1, THREADS_OF_BLOCK / 2)))
    places = THREADS_OF_BLOCK / slices
    lanes_k = np.where(along_k, np.minimum(slices, 32), np.maximum(32 / places, 1))
    lanes_n = np.minimum(32 / lanes_k, tiles_n)
    lanes_m = np.maximum(np.minimum(32 / (lanes_k * lanes_n), tiles_m * batch), 1)

    def lines(lanes, apart):
        return np.maximum(lanes * np.minimum(apart / 32, 1), 1)
    of_left = np.where(left_along_k, lines(lanes_m, k), lines(lanes_k, m))
    of_right = np.where(right_along_k, lines(lanes_n, k), lines(lanes_k, n))
    stages = np.ceil(k / (slices * unroll)) + (np.ceil(rows * columns / slices) if is_k_dealt else 0)
    each = np.ceil(np.ceil(tiles / places) / MULTIPROCESSORS)
    return each, stages, (of_left * rows + of_right * columns) / (rows + columns)


def modelled(cost, resident, of_work, plan):
    setup, latency, share, exposed = cost
    each, stages, crowding, moved, singles = of_work
    latency = latency * (1 + SINGLES.get(plan, 0) * singles)
    full = np.floor(each / resident)
    rest = each - full * resident

    of_schedulers = 1 if plan in THREADS else max(1, 4 // TILES[plan][3])

    def a_round(at_work):
        shares = np.ceil(at_work / of_schedulers) * of_schedulers
        return setup + stages * np.maximum(latency, shares * crowding * share)

    cycles = full * a_round(resident) + np.where(rest > 0, a_round(rest), 0)
    return START[DEVICE] + cycles / CYCLES + exposed * moved / (1e3 * GIGABYTES_PER_SECOND)


def fit(of_work, times, plan, random):
    """(resident, cost) of one plan by itself."""
    share = 500 if plan in THREADS else 1.3 * np.prod(TILES[plan][:3]) / 128
    best = None
    for resident in (1, 2, 3, 4, 5, 6, MOST_RESIDENT):
        cost = np.array([1000, 1000, share, 0.5])

        def error(candidate):
            return np.mean(np.minimum(np.abs(np.log(modelled(candidate, resident, of_work, plan) / times)), 1) ** 1.5)

        now, step = error(cost), 0.4
        for i in range(STEPS):
            other = cost.copy()
            other[random.integers(4)] *= np.exp(step * random.normal())
            then = error(other)
            if then < now:
                now, cost = then, other
            elif i % 50 == 49:
                step = max(0.9 * step, 0.02)
        if best is None or now < best[0]:
            best = now, resident, cost
    return best[1:]


class Choice:
    """Of each draw the times of the plans that were measured, and what the model says of them."""

    def __init__(self, draws, costs):
        self.plans = list(costs)
        sizes = [sizes for sizes, _ in draws]
        self.times = np.array([[times.get(plan, np.inf) for plan in self.plans] for _, times in draws])
        self.known = [np.isfinite(column) for column in self.times.T]
        self.work = [work([size for size, known in zip(sizes, self.known[i]) if known], plan) if self.known[i].any() else None
                     for i, plan in enumerate(self.plans)]
        self.model = np.stack([self.column(i, costs[plan]) for i, plan in enumerate(self.plans)], 1)

    def column(self, i, cost):
        column = np.full(len(self.times), np.inf)
        if self.work[i] is not None:
            column[self.known[i]] = modelled(cost[1], cost[0], self.work[i], self.plans[i])
        return column

    def ratios(self):
        """The chosen plan's time over the best one's."""
        return self.times[np.arange(len(self.times)), self.model.argmin(1)] / self.times.min(1)

    def error(self, i):
        """Of plan i's time, a little of which counts beside the choice: parts and copies are chosen by times."""
        known = self.known[i]
        return np.mean(np.minimum(np.abs(np.log(self.model[known, i] / self.times[known, i])), 1)) if known.any() else 0

    def judge(self, title):
        ratios = self.ratios()
        print(f"// {title}: within 25 % of the best of these plans on {100 * np.mean(ratios <= 1.25):.1f} % of {len(ratios)} "
              f"draws, geometric mean {np.exp(-np.mean(np.log(ratios))):.3f}, worst {1 / ratios.max():.3f}")


def fit_choice(draws, costs, kept, random):
    """The costs, changed in random steps that are kept where the choice by them loses less; those of `kept` stay."""
    most, of_error = np.log(8), 0.06
    choice = Choice(draws, costs)

    def loss():
        return np.mean(np.minimum(np.log(choice.ratios()), most))

    now, step = loss(), 0.5
    for turn in range(STEPS_OF_CHOICE):
        i = random.integers(len(choice.plans))
        plan = choice.plans[i]
        if plan in kept:
            continue
        resident, cost = costs[plan]
        other = np.array(cost, float)
        at = random.integers(4)
        other[at] = (other[at] or (300 if at < 3 else 0.2)) * np.exp(step * random.normal())
        changed = int(random.integers(1, MOST_RESIDENT + 1)) if random.random() < 0.08 else resident
        before, error = choice.model[:, i].copy(), choice.error(i)
        choice.model[:, i] = choice.column(i, (changed, other))
        then = loss()
        if then + of_error * choice.error(i) < now + of_error * error:
            now, costs[plan] = then, (changed, other)
        else:
            choice.model[:, i] = before
        if turn % (STEPS_OF_CHOICE // 6) == 0:
            step *= 0.8
    return costs


def table_in(path):
    with open(path) as file:
        return file.read().split("kOpenClBlockCosts")[DEVICE == "opencl"]


def singles_in(path):
    """{plan: BlockCost::singles} of those that have some; they aren't fitted."""
    return {plan: float(singles) for plan, singles in re.findall(r'BlockCost\{"(\w+)",[^}]*f, ([\d.]+)f\}', table_in(path))}


def costs_in(path):
    found = re.findall(r'BlockCost\{"(\w+)", (\d+), (-?\d+), (\d+), (\d+), ([\d.]+)f[,}]', table_in(path))
    return {plan: (int(resident), np.array([float(x) for x in cost])) for plan, resident, *cost in found}


def main():
    global DEVICE, GIGABYTES_PER_SECOND, SINGLES, TILES
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", nargs="+")
    parser.add_argument("--gigabytes", type=float, required=True, help="a second, of the device's memory")
    parser.add_argument("--device", choices=list(START), default="cuda")
    parser.add_argument("--start", help="a header whose numbers are the start")
    parser.add_argument("--keep", nargs="*", default=[], help="plans whose numbers in --start stay as they are")
    parser.add_argument("--judge", nargs="*", default=[], help="measurements that nothing is fitted to")
    options = parser.parse_args()
    DEVICE, GIGABYTES_PER_SECOND = options.device, options.gigabytes
    SINGLES = singles_in(HEADER)
    if DEVICE == "opencl":
        TILES = OPENCL_TILES
    plans = TILES | THREADS
    draws = [(sizes, {plan: time for plan, time in times.items() if plan in plans})
             for path in options.measured for sizes, times in read(path).values()]
    draws = [draw for draw in draws if len(draw[1]) > 1]
    random = np.random.default_rng(0)
    costs = costs_in(options.start) if options.start else {}
    for plan in plans:
        measured = [(sizes, times[plan]) for sizes, times in draws if plan in times]
        if plan in costs or len(measured) < 8:
            continue
        costs[plan] = fit(work([sizes for sizes, _ in measured], plan), np.array([time for _, time in measured]), plan, random)
    held = range(0, len(draws), 10)
    costs = fit_choice([draw for i, draw in enumerate(draws) if i not in held], costs, options.keep, random)
    for plan, (resident, cost) in costs.items():
        singles = f", {SINGLES[plan]:.2f}f" if plan in SINGLES else ""
        print(f'    BlockCost{{"{plan}", {resident}, {cost[0]:.0f}, {cost[1]:.0f}, {cost[2]:.0f}, {cost[3]:.2f}f{singles}}},')
    Choice(draws, costs).judge("all")
    Choice([draws[i] for i in held], costs).judge("those it wasn't fitted to")
    for path in options.judge:
        others = [(sizes, {plan: time for plan, time in times.items() if plan in costs}) for sizes, times in read(path).values()]
        Choice([draw for draw in others if len(draw[1]) > 1], costs).judge(path)


if __name__ == "__main__":
    main()
