#!/usr/bin/env python3
"""test_hybrid_report.py BENCHMARKS: what hybrid_report.py of the folder BENCHMARKS makes of runs whose outcome is known.
Plots are left out: they need matplotlib."""
import json
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, sys.argv[1])
plots = types.ModuleType("plots")
plots.plt, plots.matplotlib, plots.save = mock.MagicMock(), mock.MagicMock(), mock.MagicMock()
plots.plt.subplots.return_value = (mock.MagicMock(), mock.MagicMock())
sys.modules["plots"] = plots
import hybrid_report  # noqa: E402


def run(steps, seed, value, **more):
    row = {"task": "digits", "schedule": "wsd", "learning_rate": 0.001, "beta2": 0.99, "steps": steps, "seed": seed,
           "split": "test", "forecaster": "none", "window": 40, "horizon": 10, "dense": False, "sampler": "",
           "lookahead": 0, "label_noise": 0, "loss": value, "error": value / 10, "last_loss": value, "last_error": value / 10,
           "seconds": steps / 1000, "predict_seconds": 0, "computed": steps, "accepted": 0, "rejected": 0,
           "rolled_back": 0, "diverged": False, "alone": False, **more}
    names = ("task", "schedule", "steps", "seed", "split", "forecaster", "dense", "sampler", "label_noise")
    return {"key": " ".join(str(row[name]) for name in names), **row}


SEEDS = (1, 2, 3)
# Plain training comes to a loss of 100 / steps in a millisecond a step; cosine to twice that.
PLAIN = [run(steps, seed, factor * 100 / steps, schedule=schedule, alone=True)
         for steps in (100, 200, 400) for seed in SEEDS for schedule, factor in (("wsd", 1), ("cosine", 2))]


class HybridReport(unittest.TestCase):
    def page_of(self, rows):
        with tempfile.TemporaryDirectory() as folder:
            file, page = Path(folder) / "hybrid-here.jsonl", Path(folder) / "page.md"
            file.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
            page.write_text(f"before\n{hybrid_report.BEGIN}\nold\n{hybrid_report.END}\nafter\n", encoding="utf-8")
            with mock.patch.object(sys, "argv", ["hybrid_report.py", str(file), "--page", str(page)]):
                hybrid_report.main()
            text = page.read_text(encoding="utf-8")
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))
        self.assertNotIn("old", text)
        return text

    def line(self, text, *parts):
        found = [line for line in text.splitlines() if all(part in line for part in parts)]
        self.assertEqual(len(found), 1, (parts, found, text))
        return found[0]

    def test_cost_and_wall_time_to_equal_error(self):
        # In 200 steps what plain training needs 400 for; a step takes 1.6 times as long.
        rows = PLAIN + [run(200, seed, 0.25, sampler="last", seconds=0.32, alone=True) for seed in SEEDS]
        text = self.page_of(rows)
        line = self.line(text, "| last | 200, 200 | 3 |")
        self.assertIn("-0.25000 ± 0.00000", line)  # against 100 / 200
        self.assertEqual(line.count("2.00× (2.00 to 2.00)"), 2, line)
        line = self.line(text, "| last | 200 | 3 | 0.320 ± 0.000 | 1600.0 |")
        self.assertEqual(line.count("1.25× (1.25 to 1.25)"), 2, line)
        self.line(text, "| plain, wsd | 400 | 3 | 0.400 ± 0.000 | 1000.0 |")

    def test_what_a_cosine_alone_would_have_paid(self):
        # 200 / steps: for 0.5 it needs 400, of which 200 and 160 are the half and two fifths; 0.32 s of 0.4.
        rows = PLAIN + [run(200, seed, 0.5, sampler="last", computed=160, seconds=0.32, alone=True) for seed in SEEDS]
        text = self.page_of(rows)
        line = self.line(text, "| last | 200 | 160 |")
        self.assertEqual(line.count("2.50× (2.50 to 2.50)"), 2, line)
        self.assertEqual(line.count("1.25× (1.25 to 1.25)"), 2, line)
        line = self.line(text, "| plain, wsd | 200 | 200 |")
        self.assertEqual(line.count("2.00× (2.00 to 2.00)"), 4, line)
        self.assertEqual(self.line(text, "| plain, wsd | 400 | 400 |").count("better than any of them"), 4)
        self.assertNotIn("| plain, cosine | 200 | 200 |", text)
        self.assertNotIn("cosine alone", self.page_of([row for row in rows if row["schedule"] == "wsd"]))

    def test_time_counts_only_where_nothing_ran_beside(self):
        together = [run(200, seed, 0.25, sampler="last", seconds=9.0) for seed in SEEDS]
        self.assertNotIn("| last | 200 | 3 |", self.page_of(PLAIN + together))
        again = [run(200, 1, 0.25, sampler="last", seconds=0.2, alone=True)]
        text = self.page_of(again + PLAIN + together)  # whichever comes first
        self.line(text, "| last | 200, 200 | 3 |")
        self.line(text, "| last | 200 | 1 | 0.200 | 1000.0 |", "2.00×")
        slow = [dict(row, alone=False) for row in PLAIN]
        self.assertNotIn("alone on the device", self.page_of(slow + together))

    def test_both_predictions_stand_among_samples_and_not_among_jumps(self):
        jump = {"forecaster": "direction", "dense": True, "computed": 180}
        partners = [run(180, seed, 0.5) for seed in SEEDS]
        rows = PLAIN + partners + [run(200, seed, 0.3, **jump) for seed in SEEDS]
        rows += [run(200, seed, 0.25, sampler="last", **jump) for seed in SEEDS]
        text = self.page_of(rows)
        line = self.line(text, "| direction, dense (40, 10) | 200, 180 |")
        self.assertIn("-0.20000 ± 0.00000", line)
        line = self.line(text, "| last, and direction, dense (40, 10) | 200, 180 | 3 |")
        self.assertIn("-0.25000 ± 0.00000", line)
        self.assertIn("2.22×", line)  # 400 / 180

    def test_jumps_that_a_forecast_of_the_loss_decides_stand_by_themselves(self):
        jump = {"forecaster": "direction", "dense": True, "computed": 180}
        rows = PLAIN + [run(200, seed, 0.3, **jump) for seed in SEEDS]  # as rows were before there was a length
        for residuals, value in ((0, 0.4), (16, 0.45)):
            rows += [dict(run(200, seed, value, length="forecast", residuals=residuals, predict_seconds=0.1, **jump),
                          key=f"forecast {residuals} {seed}") for seed in SEEDS]
        text = self.page_of(rows)
        self.line(text, "| direction, dense (40, 10) | 200, 180 |", "| 0.00 % |")
        self.line(text, "| direction, dense, forecast (40, 10) | 200, 180 |", "| 50.00 % |")
        self.line(text, "| direction, dense, forecast, 16 residuals (40, 10) | 200, 180 |", "| 50.00 % |")
        kinds = {hybrid_report.kind_of(row) for row in rows}
        self.assertLessEqual(kinds - {"none"}, set(hybrid_report.KINDS))
        self.assertEqual(len(kinds), 4)

    def test_wrong_labels_have_a_section_of_their_own(self):
        noisy = [run(row["steps"], row["seed"], 2 * row["loss"], schedule=row["schedule"], label_noise=0.1)
                 for row in PLAIN]
        text = self.page_of(PLAIN + noisy)
        self.line(text, "#### digits, 10 % of the training labels wrong")
        self.assertEqual(text.count("| wsd, rate 0.001, β₂ 0.99 | 400 | 3 |"), 2)
        self.line(text, "| wsd, rate 0.001, β₂ 0.99 | 400 | 3 | 0.50000")
        self.line(text, "(images/hybrid-here-digits-noise-0.1.svg)")

    def test_what_sampling_adds_to_a_step(self):
        note = {"key": "digits sampling", "sampling": "digits", "samples": 500, "batch": 8, "shuffled_us": 3.0,
                "draw_us": 10.0, "update_us": 5.0}
        text = self.page_of([note, *PLAIN])
        self.line(text, "| digits | 500 | 8 | 3.0 | 10.0 | 5.0 | 12.0 |")
        self.assertIn("18 runs, 0 of them diverged", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
