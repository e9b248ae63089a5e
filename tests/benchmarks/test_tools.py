#!/usr/bin/env python3
"""test_tools.py BENCHMARKS LIBRARY: tests the tools of the folder BENCHMARKS that need nothing but Python."""
import copy
import ctypes
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest

FOLDER, LIBRARY = sys.argv[1], sys.argv[2]
sys.path.insert(0, FOLDER)
import figures  # noqa: E402
import measure  # noqa: E402
import notes  # noqa: E402
import results  # noqa: E402
import timing  # noqa: E402
import verdicts  # noqa: E402
from ashlar_library import REPLAYS, AshlarError, Library, Run  # noqa: E402


def row(name, ours, bytes=1e9, **rivals):
    return {"kernel": "add", "name": name, "dtype": "f32", "shapes": [[8]], "flops": 0, "bytes": bytes,
            "ms": {"ashlar": ours, **rivals}}


OLD = {"target": "cpu", "bandwidth": 1e10,
       "rows": [row("with_rivals", 1.0, quick=1.5, slow=9.0), row("alone", 200.0)]}


class Regression(unittest.TestCase):
    def run_on(self, new, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, report in (("old", OLD), ("new", new)):
                paths.append(os.path.join(folder, name + ".json"))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    json.dump(report, file)
            result = subprocess.run([sys.executable, os.path.join(FOLDER, "regression.py"), *paths, *arguments],
                                    capture_output=True, text=True)
        return result.returncode, result.stdout

    def changed(self, change):
        new = copy.deepcopy(OLD)
        change(new)
        return self.run_on(new)

    def test_the_same_passes(self):
        self.assertEqual(self.run_on(OLD)[0], 0)

    def test_a_slower_machine_passes(self):
        def slower(new):
            new["bandwidth"] /= 2
            for r in new["rows"]:
                r["ms"] = {name: 2 * ms for name, ms in r["ms"].items()}
        self.assertEqual(self.changed(slower)[0], 0)

    def test_nine_percent_pass(self):
        self.assertEqual(self.changed(lambda new: new["rows"][0]["ms"].update(ashlar=1 / 0.91))[0], 0)

    def test_eleven_percent_fail(self):
        code, text = self.changed(lambda new: new["rows"][0]["ms"].update(ashlar=1 / 0.89))
        self.assertEqual(code, 1)
        self.assertIn("add/with_rivals/f32: quick ratio fell from 1.500 to 1.335", text)

    def test_only_the_quickest_rival_of_the_old_run_counts(self):
        self.assertEqual(self.changed(lambda new: new["rows"][0]["ms"].update(slow=0.1))[0], 0)

    def test_without_rivals_the_share_of_bandwidth_counts(self):
        code, text = self.changed(lambda new: new["rows"][1]["ms"].update(ashlar=250.0))
        self.assertEqual(code, 1)
        self.assertIn("add/alone/f32: bandwidth ratio fell from 0.500 to 0.400", text)

    def test_a_benchmark_that_has_gone_fails(self):
        code, text = self.changed(lambda new: new["rows"].pop(0))
        self.assertEqual(code, 1)
        self.assertIn("add/with_rivals/f32: is gone", text)

    def test_wrong_numbers_fail(self):
        def wrong(new):
            del new["rows"][0]["ms"]
            new["rows"][0]["wrong"] = "error 1 above 3e-05"
        code, text = self.changed(wrong)
        self.assertEqual(code, 1)
        self.assertIn("error 1 above", text)

    def test_other_device_is_refused(self):
        self.assertEqual(self.changed(lambda new: new.update(target="cuda"))[0], 2)

    def with_spread(self, ours, low, high):
        def change(new):
            new["rows"][0]["ms"]["ashlar"] = ours
            new["rows"][0]["spread"] = {"ashlar": [low, high], "quick": [1.5, 1.5]}
        return self.changed(change)

    def test_a_fall_within_the_spread_is_told_and_passes(self):
        code, text = self.with_spread(1 / 0.85, 0.95, 1.3)
        self.assertEqual(code, 0)
        self.assertIn("add/with_rivals/f32: quick ratio fell from 1.500 to 1.275, within the spread", text)

    def test_a_fall_beyond_the_spread_fails(self):
        self.assertEqual(self.with_spread(1 / 0.85, 1.1, 1.3)[0], 1)

    def test_a_fall_of_twice_what_is_allowed_fails_whatever_the_spread(self):
        self.assertEqual(self.with_spread(1 / 0.75, 0.5, 9.0)[0], 1)

    def test_our_quicker_way_counts(self):
        self.assertEqual(self.changed(lambda new: new["rows"][0]["ms"].update({"ashlar": 9.0, "ashlar graph": 1.0}))[0], 0)

    def test_what_is_no_report_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            for text in ("", "[]", '{"rows": []}'):
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()
                with self.assertRaises(results.WrongFile):
                    results.read(file.name)

    def test_allowed_can_be_given(self):
        new = copy.deepcopy(OLD)
        new["rows"][0]["ms"]["ashlar"] = 1 / 0.7
        self.assertEqual(self.run_on(new, "--allowed", "0.35")[0], 0)


class Verdicts(unittest.TestCase):
    """Of a figure of two benchmarks, at least as quick as the quickest rival."""
    REACH = figures.Reach("quickest", 1.0, ("add/*/f32",))

    def verdict(self, rows, expected=("add/a/f32", "add/b/f32"), reach=REACH):
        report = {"target": "cuda", "bandwidth": 1e10, "rows": rows}
        if expected is not None:
            report["expected"] = list(expected)
        return verdicts.verdict(reach, report)[2]

    def test_all_measured_and_quick_enough(self):
        self.assertEqual(self.verdict([row("a", 1.0, torch=2.0), row("b", 1.0, torch=1.0)]), "**reached**")

    def test_slow(self):
        self.assertEqual(self.verdict([row("a", 1.0, torch=2.0), row("b", 1.0, torch=0.9)]), "missed: 1 of 2 reach it")

    def test_the_quickest_rival_counts(self):
        self.assertEqual(self.verdict([row("a", 1.0, torch=2.0), row("b", 1.0, torch=2.0, jax=0.9)]),
                         "missed: 1 of 2 reach it")

    def test_a_benchmark_that_was_not_begun(self):
        self.assertEqual(self.verdict([row("a", 1.0, torch=2.0)]), "not measured: 1 of 2")

    def test_a_rival_that_was_not_measured(self):
        self.assertEqual(self.verdict([row("a", 1.0, torch=2.0), row("b", 1.0)]), "not measured: 1 of 2")

    def test_wrong_numbers(self):
        wrong = row("b", 1.0)
        del wrong["ms"]
        wrong["wrong"] = "error 1 above 3e-05"
        self.assertEqual(self.verdict([row("a", 1.0, torch=2.0), wrong]), "wrong numbers: 1 of 2")

    def test_nothing(self):
        self.assertEqual(self.verdict([]), "not measured: 2 of 2")
        self.assertEqual(self.verdict([], expected=()), "not measured")

    def test_a_file_that_does_not_say_what_was_to_be_measured(self):
        rows = [row("a", 1.0, torch=2.0), row("b", 1.0, torch=2.0)]
        self.assertEqual(self.verdict(rows, expected=None), "not known whether all were measured")

    def test_cuda_counts_only_in_the_same_process(self):
        reach = figures.Reach("cuda", 0.9, ("add/*/f32",))
        rows = [row("a", 1.0), row("b", 1.0)]
        self.assertEqual(self.verdict(rows, reach=reach), "not measured: 2 of 2")
        for r in rows:
            r["beside"] = {"cuda": {"ms": {"ashlar": 1.0, "ashlar graph": 0.95}, "spread": {}}}
        self.assertEqual(self.verdict(rows, reach=reach), "**reached**")
        rows[0]["beside"]["cuda"]["ms"]["ashlar graph"] = 0.8
        self.assertEqual(self.verdict(rows, reach=reach), "missed: 1 of 2 reach it")


class Notes(unittest.TestCase):
    REPORTS = {"cpu": {"target": "cpu", "bandwidth": 1e10, "versions": {"JAX": "0.10"}, "device": {"description": "a CPU"},
                       "threads": 2, "rows": [row("a", 1.0, quick=1.5, slow=9.0), row("b", 2.0, quick=1.5)]}}

    def filled(self, text):
        return notes.filled(text, self.REPORTS)

    def test_numbers_come_from_the_measurements(self):
        self.assertEqual(self.filled("{cpu:add/a/f32:ratio}, {cpu:add/*/f32:ratio} and {cpu:add/a/f32:ratio slow}"),
                         "1.50, 0.75 to 1.50 and 9.00")
        self.assertEqual(self.filled("{cpu:add/b/f32:us} µs, {cpu:add/b/f32:ms quick} ms"), "2000 µs, 1.5 ms")
        self.assertEqual(self.filled("{cpu:add/b/f32:share}, {cpu::version JAX}, {cpu::copy}"), "50.00, 0.10, 10 GB/s")

    def test_what_was_not_measured_fails(self):
        for text in ("{cpu:add/c/f32:ratio}", "{cuda:add/a/f32:ratio}", "{cpu:add/a/f32:ratio torch}", "{cpu:add/a/f32:x}",
                     "{cpu::version torch}", "{cpu:add/a/f32:beside cuda}"):
            with self.assertRaises(notes.WrongNote, msg=text):
                self.filled(text)

    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".md") as file:
            file.write("## cpu\n" + text)
            file.flush()
            return notes.read(file.name)

    def test_numbers_written_by_hand_say_when_and_on_what(self):
        for text in ("exp is at 1.04", "| exp | 3 % |", "it takes 12 µs", "one (2026-11-21, 5280797)\n\ntwo 1.5"):
            with self.assertRaises(notes.WrongNote, msg=text):
                self.read(text)
        for text in ("exp is at {cpu:exp/16M/f32:ratio}", "exp was at 1.04 (2026-11-21, 5280797)", "64 rows of `1.5`"):
            self.assertEqual(self.read(text), {"cpu": text})

    def test_the_projects_own(self):
        folder = os.path.join(FOLDER, "..", "docs", "results", "benchmarks")
        reports = {t: results.read(os.path.join(folder, t + ".json")) for t in ("cpu", "cuda", "opencl")}
        for text in notes.read(os.path.join(folder, "notes.md")).values():
            self.assertNotIn("{", notes.PLACEHOLDER.sub("", text), "a placeholder that isn't one")
            notes.filled(text, reports)


class Sessions(unittest.TestCase):
    HEAD = {"target": "cuda", "device": {"description": "a GPU", "cpu": "a CPU"}, "versions": {"Ashlar": "1"}, "load": 1.0,
            "expected": ["add/a/f32", "add/b/f32"]}

    def test_a_stopped_run_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            first = results.Session(folder, self.HEAD, resume=True)
            first.add_bandwidth(1e10)
            first.add(row("a", 1.0), 5)
            wrong = {**row("b", 1.0), "wrong": "it broke"}
            del wrong["ms"]
            first.add(wrong, 9)
            second = results.Session(folder, {**self.HEAD, "load": 0.5, "device": {**self.HEAD["device"], "cpu": "B"}}, True)
            self.assertEqual(second.report["device"], {"description": "a GPU", "cpu": "a CPU and B"})
            self.assertEqual(second.done, {"add/a/f32"})
            self.assertEqual(second.missing(), ["add/b/f32"])
            second.add_bandwidth(2e10)
            second.add(row("b", 1.0), 7)
            report = results.read(second.path)
            self.assertEqual([results.key(r) for r in report["rows"]], ["add/a/f32", "add/b/f32"])
            self.assertEqual((report["seconds"], report["bandwidths"], report["load"]), (16, [1e10, 2e10], 1.0))
            self.assertEqual(results.Session(folder, self.HEAD, resume=False).done, set())

    def test_only_with_the_same_revision_on_the_same_device(self):
        for change in ({"versions": {"Ashlar": "2"}}, {"device": {"description": "another"}}):
            with tempfile.TemporaryDirectory() as folder:
                first = results.Session(folder, self.HEAD, resume=False)
                first.add_bandwidth(1e10)
                first.write(1)
                with self.assertRaises(results.WrongFile):
                    results.Session(folder, {**self.HEAD, **change}, resume=True)


class Timing(unittest.TestCase):
    def test_calls_take_the_sets_in_turn_and_keep_their_outputs(self):
        seen = []
        contender = timing.Contender([lambda i=i: seen.append(i) or f"output {i}" for i in range(3)])
        contender.seconds(4)
        contender.seconds(1)
        self.assertEqual(seen, [0, 1, 2, 0, 1])
        self.assertEqual(contender.kept, ["output 0", "output 1", "output 2"])
        self.assertEqual(contender.result(), "output 2")

    def test_medians_and_their_spread(self):
        median, (low, high) = timing.median_and_spread([float(x) for x in range(101)])
        self.assertEqual((median, low, high), (50, 10, 90))
        self.assertEqual(timing.median_and_spread([3.0]), (3.0, [3.0, 3.0]))

    def test_every_set_was_called_before_the_first_is_timed(self):
        seen = []

        class Noting(timing.Contender):
            def seconds(self, count):
                seen.append(count)
                return super().seconds(count)
        timing.in_turn({"a": Noting([lambda: None] * 7)}, batch=1e-5, rounds=2, seconds=0, pause=0)
        self.assertEqual(seen[0], 7)

    def test_everybody_has_as_many_rounds(self):
        sleepers = {"a": timing.Contender([lambda: None]), "b": timing.Contender([lambda: None])}
        times = timing.in_turn(sleepers, batch=1e-5, rounds=3, seconds=0, pause=0)
        self.assertEqual([len(times[name]) for name in ("a", "b")], [3, 3])


class AddRival:
    """Judges and adds floats by loops; one of its contenders is wrong."""

    def cache_bytes(self):
        return 1 << 20

    def inputs(self, run):
        for i in range(2):
            values = (ctypes.c_float * 1024)(*[(i + 1) * x for x in range(1024)])
            run.write(i, ctypes.addressof(values))
        run.replicate()
        return [[types.SimpleNamespace(shape=(1024,), nbytes=4096)] * 2] * run.sets

    def outputs(self, run):
        values = (ctypes.c_float * 1024)()
        run.read(0, ctypes.addressof(values))
        return [types.SimpleNamespace(values=list(values), nbytes=4096)]

    def exact(self, benchmark, inputs):
        return [3.0 * x for x in range(1024)]

    def error(self, outputs, exact):
        return max(abs(a - b) for a, b in zip(outputs[0].values, exact))

    def contenders(self, benchmark, sets, short):
        right = [types.SimpleNamespace(values=self.exact(benchmark, None))]
        wrong = [types.SimpleNamespace(values=[0.0] * 1024)]
        return {"right": timing.Contender([lambda: right]), "wrong": timing.Contender([lambda: wrong])}, {"third": "too shy"}

    def clean(self):
        pass


class Measuring(unittest.TestCase):
    def setUp(self):
        self.library = Library(LIBRARY, "cpu")
        self.benchmarks = {b.key: b for b in self.library.benchmarks()}
        self.options = types.SimpleNamespace(batch=1e-4, rounds=2, seconds=0, pause=0)

    def measurer(self):
        return measure.Measurer(self.options, {"cpu": self.library}, AddRival(), {"cpu": set(self.benchmarks)})

    def test_a_row_says_what_was_measured_and_what_not(self):
        found = self.measurer().measure(self.benchmarks["add/1K/f32"])["cpu"]
        self.assertEqual(set(found["ms"]), {"ashlar", "right"})
        self.assertEqual(set(found["spread"]), {"ashlar", "right"})
        self.assertEqual(found["not"]["third"], "too shy")
        self.assertIn("its numbers are wrong", found["not"]["wrong"])
        self.assertEqual((found["error"], found["bytes"], found["sets"]), (0, 12288, 1))
        self.assertLessEqual(*found["host_us_spread"])

    def test_wrong_numbers_of_ours_are_not_timed(self):
        measurer = self.measurer()
        measurer.rival.exact = lambda benchmark, inputs: [1.0] * 1024
        found = measurer.measure(self.benchmarks["add/1K/f32"])["cpu"]
        self.assertNotIn("ms", found)
        self.assertIn("error", found["wrong"])

    def test_inputs_rotate_where_memory_is_the_limit(self):
        measurer = self.measurer()
        measurer.cache = 60 << 20
        sets = {key: measurer.sets(self.benchmarks[key]) for key in (
            "matmul/linear_gelu_1x4096x4096/f32", "matmul/1x4096x4096/f32", "add/64M/f32", "add/1K/f32",
            "matmul/1024x1024x1024/f32", "mlp_step/batch_64/f32", "argmax/rows_16384x1024/f32")}
        self.assertEqual(list(sets.values()), [2, 2, 1, 1, 1, 1, 2])

    def test_sets_and_graphs_compute(self):
        run = Run(self.library, self.benchmarks["add/1K/f32"], 3)
        AddRival().inputs(run)
        run.capture()
        for compute in (run.call, run.replay):
            for i in range(3):
                self.assertEqual(compute(i), 1)
                self.assertEqual(AddRival().outputs(run)[0].values[:3], [0, 3, 6])
        addresses = {d["address"] for i in range(3) for d in run.tensors("inputs", i)}
        self.assertEqual(len(addresses), 6)
        self.assertGreater(run.seconds(7, REPLAYS), 0)
        run.close()

    def test_programs_with_state_have_one_set_and_no_graph_around_them(self):
        with self.assertRaisesRegex(AshlarError, "keeps state"):
            Run(self.library, self.benchmarks["adam/10M_in_20/f32"], 2)
        run = Run(self.library, self.benchmarks["graph/chain_of_100/f32"])
        with self.assertRaisesRegex(AshlarError, "with state"):
            run.capture()
        run.close()


class Figures(unittest.TestCase):
    def setUp(self):
        self.library = Library(LIBRARY, "cpu")
        self.benchmarks = self.library.benchmarks()

    def test_every_pattern_names_a_benchmark(self):
        keys = [b.key for b in self.benchmarks]
        for figure in figures.ALL:
            for pattern in [p for reach in figure.reaches for p in reach.patterns] + list(figure.quick):
                self.assertTrue(fnmatch.filter(keys, pattern), f"{figure.work}: nothing matches {pattern}")

    def test_opencl_is_compared_with_cuda_in_rows_of_cuda(self):
        keys = [b.key for b in self.benchmarks]
        missing = set(measure.matching(self.benchmarks, figures.patterns("opencl"))) - set(
            measure.matching(self.benchmarks, figures.patterns("cuda")))
        self.assertFalse(missing & set(keys), "measured on OpenCL but not on CUDA")

    def test_a_benchmark_computes(self):
        index = next(b for b in self.benchmarks if b.key == "add/1K/f32")
        run = Run(self.library, index)
        for i, value in enumerate((1.5, 2.0)):
            values = (ctypes.c_float * 1024)(*[value] * 1024)  # an address keeps nothing alive
            run.write(i, ctypes.addressof(values))
        self.assertEqual(run.call(), 1)
        result = (ctypes.c_float * 1024)()
        run.read(0, ctypes.addressof(result))
        self.assertEqual(set(result), {3.5})
        self.assertGreater(run.seconds(10), 0)
        run.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
