#!/usr/bin/env python3
"""test_tools.py BENCHMARKS LIBRARY: tests regression.py and figures.py of the folder BENCHMARKS."""
import copy
import ctypes
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import unittest

FOLDER, LIBRARY = sys.argv[1], sys.argv[2]
sys.path.insert(0, FOLDER)
import figures  # noqa: E402
from ashlar_library import Library, Run  # noqa: E402


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

    def test_allowed_can_be_given(self):
        new = copy.deepcopy(OLD)
        new["rows"][0]["ms"]["ashlar"] = 1 / 0.7
        self.assertEqual(self.run_on(new, "--allowed", "0.35")[0], 0)


class Figures(unittest.TestCase):
    def setUp(self):
        self.library = Library(LIBRARY, "cpu")
        self.benchmarks = self.library.benchmarks()

    def test_every_pattern_names_a_benchmark(self):
        keys = [b.key for b in self.benchmarks]
        for figure in figures.ALL:
            for pattern in [p for reach in figure.reaches for p in reach.patterns] + list(figure.quick):
                self.assertTrue(fnmatch.filter(keys, pattern), f"{figure.work}: nothing matches {pattern}")

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
