#!/usr/bin/env python3
"""fit_plans.py plans.csv: fits the numbers of schedules/contraction_model.h to what ashlar-plan-choice has measured, and
prints them with the share of draws in which the plan that they choose is within 25 % of the best. Judge them by another
seed's draws: fit_plans.py plans.csv others.csv. Needs NumPy.

The form of the model, and the reasons for it, stand in that header. Each plan is fitted by itself, by random steps that are
kept where the mean error of log(time) falls; errors of more than a factor of e count as one of e."""
import csv
import sys

import numpy as np

# rows, columns, depth of a stage, warps: as schedules/contraction_cuda.h makes the tiles
TILES = {"row": (1, 4, 1024, 4), "rows": (8, 4, 256, 2), "layer_small": (16, 32, 64, 8), "layer_32": (32, 32, 64, 4),
         "layer_64": (64, 32, 64, 8), "large_nn": (128, 256, 16, 8), "large_tn": (64, 128, 16, 2), "large_nt": (128, 64, 8, 2),
         "large_tt": (128, 64, 16, 2), "medium_nt": (64, 128, 32, 8), "medium_tt": (64, 128, 32, 8), "medium": (64, 128, 16, 4),
         "even_small": (64, 64, 8, 2), "odd_large": (128, 128, 8, 4), "odd_medium": (64, 64, 8, 2), "odd_wide": (32, 64, 8, 2),
         "odd_tall": (64, 32, 8, 2), "few_rows": (16, 32, 96, 4), "small": (32, 64, 32, 4), "smallest": (32, 32, 64, 8)}
# rows, columns and unrolled terms of a thread, and whether k is dealt: as schedules/contraction_cuda.h makes ThreadTiles
THREADS = {"threads": (2, 4, 4, False), "threads_deep": (2, 4, 8, False), "dealt": (4, 4, 2, True), "dealt_row": (1, 4, 4, True)}
THREADS_OF_BLOCK = 256
# an H200
MULTIPROCESSORS, CYCLES, BYTES = 132, 1980, 4.8e6  # of a microsecond
START = 1.4
STEPS = 1200


def read(path):
    """{draw: ((batch, m, n, k, left along k, right along k), {plan: microseconds})}"""
    draws = {}
    with open(path) as file:
        for row in csv.DictReader(file):
            batch, m, n, k = (int(row[name]) for name in ("batch", "m", "n", "k"))
            left_along_k, right_along_k = row["transpose_a"] == "0", row["transpose_b"] == "1"
            if n == 1:  # is computed as one row
                m, n, left_along_k, right_along_k = 1, m, True, left_along_k
            sizes = batch, m, n, k, left_along_k, right_along_k
            draws.setdefault(row["draw"], (sizes, {}))[1][row["plan"]] = float(row["microseconds"])
    return draws


def work(sizes, plan):
    """Of each draw the blocks of a multiprocessor, the stages of a block, how many times their share they take, and the bytes."""
    batch, m, n, k, left_along_k, right_along_k = np.array(sizes, float).T
    moved = 4 * batch * (m * k + k * n + m * n)
    if plan in THREADS:
        return (*work_of_threads(plan, batch, m, n, k, left_along_k > 0, right_along_k > 0), moved)
    rows, columns, depth, _ = TILES[plan]
    each = np.ceil(np.ceil(m / rows) * np.ceil(n / columns) * batch / MULTIPROCESSORS)
    return each, np.ceil(k / depth), np.ones_like(k), moved


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
    each, stages, crowding, moved = of_work
    full = np.floor(each / resident)
    rest = each - full * resident

    of_schedulers = 1 if plan in THREADS else max(1, 4 // TILES[plan][3])

    def a_round(at_work):
        shares = np.ceil(at_work / of_schedulers) * of_schedulers
        return setup + stages * np.maximum(latency, shares * crowding * share)

    cycles = full * a_round(resident) + np.where(rest > 0, a_round(rest), 0)
    return START + cycles / CYCLES + exposed * moved / BYTES


def fit(of_work, times, plan, random):
    share = 500 if plan in THREADS else 1.3 * np.prod(TILES[plan][:3]) / 128
    best = None
    for resident in (1, 2, 3, 4, 5, 6, 8):
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
    return best


def judge(draws, costs, title):
    ratios = []
    for sizes, times in draws.values():
        known = {plan: modelled(costs[plan][1], costs[plan][0], work([sizes], plan), plan)[0] for plan in times if plan in costs}
        if known:
            ratios.append(times[min(known, key=known.get)] / min(times[plan] for plan in known))
    ratios = np.array(ratios)
    print(f"{title}: within 25 % of the best of these plans on {100 * np.mean(ratios <= 1.25):.1f} % of {len(ratios)} draws, "
          f"geometric mean {np.exp(-np.mean(np.log(ratios))):.3f}, worst {1 / ratios.max():.3f}")


def main():
    draws = read(sys.argv[1])
    random = np.random.default_rng(0)
    costs = {}
    for plan in TILES | THREADS:
        measured = [(sizes, times[plan]) for sizes, times in draws.values() if plan in times]
        if len(measured) < 8:
            print(f"    // {plan}: {len(measured)} draws are too few")
            continue
        of_work, times = work([sizes for sizes, _ in measured], plan), np.array([time for _, time in measured])
        _, resident, cost = fit(of_work, times, plan, random)
        costs[plan] = resident, cost
        off = np.abs(np.log(modelled(cost, resident, of_work, plan) / times))
        print(f'    BlockCost{{"{plan}", {resident}, {cost[0]:.0f}, {cost[1]:.0f}, {cost[2]:.0f}, {cost[3]:.2f}f}},'
              f"  // {len(measured)} draws, error: median {np.median(off):.3f}, ninth decile {np.quantile(off, 0.9):.3f}")
    judge(draws, costs, "fitted")
    for path in sys.argv[2:]:
        judge(read(path), costs, path)


if __name__ == "__main__":
    main()
