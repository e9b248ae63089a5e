#!/usr/bin/env python3
"""test_memory.py BENCHMARKS LIBRARY: measure_memory.py of the folder BENCHMARKS on the CPU, and its table."""
import contextlib
import io
import json
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

FOLDER, LIBRARY = sys.argv[1], sys.argv[2]
sys.path.insert(0, FOLDER)
import measure_memory  # noqa: E402
import memory_table  # noqa: E402
from results import WrongFile  # noqa: E402


def row(live, held, **torch):
    found = {"kernel": "mlp_step", "name": "batch_64", "dtype": "f32", "ashlar": {"live": live, "held": held}}
    return {**found, "torch": {way: {"live": of[0], "held": of[1]} for way, of in torch.items()}} if torch else found


class Table(unittest.TestCase):
    def test_the_least_of_pytorch_counts(self):
        both = row(100, 300, eager=(200, 300), fused=(100, 400))
        self.assertEqual(memory_table.ratio(both, "live"), 1)
        self.assertEqual(memory_table.ratio(both, "held"), 1)
        self.assertEqual(memory_table.verdict(both), "**reached**")

    def test_both_ratios_are_asked(self):
        self.assertEqual(memory_table.verdict(row(111, 100, eager=(100, 100))), "missed")
        self.assertEqual(memory_table.verdict(row(100, 111, eager=(100, 100))), "missed")
        self.assertEqual(memory_table.verdict(row(110, 110, eager=(100, 100))), "**reached**")

    def test_without_pytorch_nothing_is_said(self):
        self.assertEqual(memory_table.verdict(row(100, 100)), "not measured")

    def test_section(self):
        report = {"target": "cuda", "device": {"description": "a GPU", "driver": "its driver"}, "versions": {"Ashlar": "1"},
                  "date": "today", "calls": 6,
                  "rows": [{**row(1e6, 3e6, eager=(2e6, 2e6)), "not": {"compiled": "no compiler"}},
                           {"kernel": "gru_step", "name": "small", "dtype": "f32", "wrong": "OutOfMemory"}]}
        lines = memory_table.section(report)
        self.assertIn("| mlp_step/batch_64/f32 | 1.0 | eager 2.0 | 0.50 | 3.0 | eager 2.0 | 1.50 | missed |", lines)
        self.assertIn("| gru_step/small/f32 |  |  |  |  |  |  | OutOfMemory |", lines)
        self.assertIn("- mlp_step/batch_64/f32, compiled: no compiler", lines)
        widths = {line.count(" | ") for line in lines if line.startswith("| ")}
        self.assertEqual(len(widths), 1, lines)

    def test_what_is_no_report_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / memory_table.FILE
            for text in ("", "[]", '{"rows": []}'):
                path.write_text(text, encoding="utf-8")
                with self.assertRaises(WrongFile):
                    memory_table.read(path)


class Rival(unittest.TestCase):
    """Of a PyTorch whose statistics are known."""

    def test_what_was_there_before_does_not_count(self):
        state = {"allocated": 50, "reserved": 80, "peak": 0, "emptied": 0}
        cuda = types.SimpleNamespace(
            synchronize=lambda: None, empty_cache=lambda: state.update(emptied=state["emptied"] + 1),
            reset_peak_memory_stats=lambda: state.update(peak=0), memory_allocated=lambda: state["allocated"],
            memory_reserved=lambda: state["reserved"], max_memory_allocated=lambda: state["peak"],
            max_memory_reserved=lambda: state["peak"] + 100)
        rival = measure_memory.Torch.__new__(measure_memory.Torch)
        rival.torch = types.SimpleNamespace(cuda=cuda, _C=object())
        rival.rival = types.SimpleNamespace(compiler=None, graphs=lambda calls: calls)
        calls = []

        def step():
            calls.append(1)
            state["peak"] = max(state["peak"], 1000 if len(calls) == 1 else 250)
        found = rival.peak(lambda: step, False, 4)
        self.assertEqual((found, len(calls), state["emptied"]), ({"live": 200, "held": 270}, 4, 2))


class OnTheCpu(unittest.TestCase):
    def run_script(self, *arguments):
        printed = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
            code = measure_memory.main(["--library", LIBRARY, "--results", folder, *arguments])
            with open(Path(folder) / memory_table.FILE, encoding="utf-8") as file:
                return code, json.load(file), printed.getvalue()

    def test_a_step(self):
        code, report, printed = self.run_script("--device", "cpu", "--only", "mlp_step/batch_64/f32", "--calls", "3")
        self.assertEqual((code, len(report["rows"])), (0, 1), printed)
        found = report["rows"][0]
        # Weights 784·256 + 256·128 + 128·10 and biases, their gradients and Adam's two moments: f32.
        least = 4 * 4 * (784 * 256 + 256 * 128 + 128 * 10 + 256 + 128 + 10)
        self.assertGreaterEqual(found["ashlar"]["live"], least)
        self.assertLess(found["ashlar"]["live"], 2 * least)
        self.assertGreaterEqual(found["ashlar"]["held"], found["ashlar"]["live"] * 0.9)
        self.assertNotIn("torch", found)
        self.assertIn("our side alone", printed)
        self.assertEqual(memory_table.verdict(found), "not measured")

    def test_no_such_step(self):
        with self.assertRaises(SystemExit) as stopped:
            self.run_script("--device", "cpu", "--only", "nothing/*")
        self.assertIn("no training step", str(stopped.exception))

    def test_without_the_device_it_says_so(self):
        with mock.patch.object(measure_memory, "Library", side_effect=measure_memory.AshlarError("no cuda:0")):
            with self.assertRaises(SystemExit) as stopped:
                self.run_script("--device", "cuda")
        self.assertIn("--device cpu measures our side alone", str(stopped.exception))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
