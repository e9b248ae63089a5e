"""Contenders in turn: rounds in which each runs one batch of calls; medians and their spread."""
import itertools
import statistics
import time


class Contender:
    """Calls over sets of inputs in turn. Each set's last outputs are kept, so that the next set's lie elsewhere: what one
    call leaves in a cache is gone when its set comes round again."""
    calls_in_one = 1

    def __init__(self, calls, synchronize=lambda: None):
        self.calls, self.synchronize, self.sets = calls, synchronize, len(calls)
        self.kept = [None] * len(calls)
        self.order = itertools.cycle(range(len(calls)))

    def seconds(self, count):
        calls, kept = self.calls, self.kept
        start = time.perf_counter()
        for i in itertools.islice(self.order, count):
            kept[i] = calls[i]()
        self.synchronize()
        return time.perf_counter() - start

    def result(self):
        """The outputs of the last set, to be checked."""
        result = self.calls[-1]()
        self.synchronize()
        return result


class OurContender:
    """Our calls, or replays of their graphs, which may hold several."""

    def __init__(self, run, what, calls_in_one=1):
        self.run, self.what, self.sets, self.calls_in_one = run, what, run.sets if calls_in_one == 1 else 1, calls_in_one

    def seconds(self, count):
        return self.run.seconds(count, self.what)


def chain_length(sets):
    """Calls in a graph of several: each set as often as the others, 16 calls or more."""
    return sets * -(-16 // sets)


def calls_for(seconds, target, most):
    """How many calls take about `target` seconds."""
    calls = 1
    while True:
        spent = seconds(calls)
        if spent >= target / 2 or calls >= most:
            return max(1, min(most, round(calls * target / max(spent, 1e-9))))
        calls = min(most, calls * max(2, min(20, int(target / max(spent, 1e-9)))))


def median_and_spread(times):
    """(median, [10th percentile, 90th percentile])"""
    if len(times) < 2:
        return times[0], [times[0]] * 2
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return statistics.median(times), [tenths[0], tenths[8]]


def in_turn(contenders, batch, rounds, seconds, pause):
    """{name: seconds of a call in each round}. Batches take about `batch` seconds; there are at least `rounds` rounds and
    about `seconds` for each contender. Before a batch comes a pause, for threads that others left spinning, and one call
    that isn't timed: the device comes from somebody else."""
    counts = {}
    for name, contender in contenders.items():
        contender.seconds(max(2, contender.sets))  # what is written for the first time costs the system's page faults
        counts[name] = calls_for(contender.seconds, batch, 5000)
    times = {name: [] for name in contenders}
    end = time.perf_counter() + seconds * len(contenders)
    for done in range(4 * rounds):
        if done >= rounds and time.perf_counter() >= end:
            break
        for name, contender in contenders.items():
            time.sleep(pause)
            contender.seconds(1)
            times[name].append(contender.seconds(counts[name]) / (counts[name] * contender.calls_in_one))
    return times
