#!/usr/bin/env python3
"""test_draws.py BENCHMARKS LIBRARY: tests random draws, their measuring and their report, with nothing but Python."""
import ctypes
import lzma
import math
import os
import subprocess
import sys
import tempfile
import unittest

FOLDER, LIBRARY = sys.argv[1], sys.argv[2]
sys.path.insert(0, FOLDER)
import distribution  # noqa: E402
import draw_networks  # noqa: E402
import draws  # noqa: E402
import reach  # noqa: E402
import results  # noqa: E402
from ashlar_library import CHAINS, AshlarError, Library, Run  # noqa: E402


def all_draws(limits, count=150, seed="a seed"):
    return {family: [draws.draw(seed, family, i, limits) for i in range(count)] for family in draws.FAMILIES}


# Of networks' operators: the sizes that the thirds speak of.
CHANNELS = {"conv2d": lambda d: [d.output_shape[1]], "conv2d_input": lambda d: [d.views[0].shape[1]],
            "conv2d_weight": lambda d: [d.views[0].shape[1]]}
SIZED = {"norms": lambda d: d.views[0].shape[-1:] if d.kernel != "group_norm" else [], "batch_norm": lambda d: d.views[0].shape[1:2],
         "activations": lambda d: d.views[0].shape[-1:] if d.kernel != "glu" else [],
         "losses": lambda d: d.views[0].shape[-1:], "convolutions": lambda d: CHANNELS[d.kernel](d),
         "windows": lambda d: d.views[0].shape[1:2], "attention": lambda d: d.views[0].shape[-2:],
         "recurrent": lambda d: d.output_shape[-1:], "indexing": lambda d: []}


class Draws(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.on_gpu, cls.on_cpu = all_draws(draws.GPU_LIMITS), all_draws(draws.CPU_LIMITS)

    def test_seed_family_and_index_decide(self):
        for family, some in self.on_gpu.items():
            again = [draws.draw("a seed", family, i, draws.GPU_LIMITS) for i in (140, 3)]
            self.assertEqual([d.call() for d in again], [some[140].call(), some[3].call()])
            other = [draws.draw("another", family, i, draws.GPU_LIMITS).key for i in range(20)]
            self.assertNotEqual(other, [d.key for d in some[:20]])

    @staticmethod
    def sizes(draw):
        """Those that the thirds speak of."""
        if draw.family in SIZED:
            return SIZED[draw.family](draw)
        if draw.kernel == "matmul":
            return draw.views[0].shape[-2:] + draw.views[1].shape[-2:]
        if draw.kernel == "copy" and "permuted" in draw.views[0].layout:
            return [size for size, stride in zip(draw.views[0].shape, draw.views[0].strides) if stride == 1] + \
                draw.views[0].shape[-1:]  # the innermost of what is permuted, or of a view with swapped axes
        return [max(view.shape[-1] for view in draw.views)]

    def test_a_third_has_multiples_of_64_and_a_third_odd_sizes(self):
        for family, some in self.on_gpu.items():
            for draw in some:
                if draw.kernel in ("add", "sub", "mul", "div", "maximum", "minimum") or \
                        (draw.kernel == "cross_entropy" and family != "losses") or (draw.kernel == "copy" and 1 in draw.views[0].shape):
                    continue  # axes that are broadcast, strides that aren't unique
                if draw.index % 3 < 2:
                    good = [size % 64 == 0 if draw.index % 3 == 0 else size % 2 == 1 for size in self.sizes(draw)]
                    (self.assertTrue(any(good), draw.name) if draw.kernel == "copy" else self.assertTrue(all(good), draw.name))
            of_any = [size for draw in some[2::3] for size in self.sizes(draw)]
            self.assertTrue(family == "indexing" or any(size % 2 == 0 and size % 64 for size in of_any), family)

    def test_ranges_and_limits_are_kept(self):
        for limits, families in ((draws.GPU_LIMITS, self.on_gpu), (draws.CPU_LIMITS, self.on_cpu)):
            for family, some in families.items():
                for draw in some:
                    self.assertLessEqual(draw.footprint(), limits.bytes)
                    self.assertLessEqual(draw.flops, limits.flops)
                    self.assertIn(draw.dtype, limits.dtypes)
                    rank = len(draw.views[0].shape)
                    elements = draws.count(draw.views[0].shape)
                    if family in ("elementwise", "reductions"):
                        self.assertTrue(1 <= rank <= 4 and 1 <= draws.count(draw.output_shape) <= 1 << 27)
                    elif family == "permutes":
                        self.assertTrue(rank <= 5 and elements <= 1 << 27)
                    elif family == "rows":
                        self.assertTrue(1 <= draw.views[0].shape[0] <= 10**6 and 2 <= draw.views[0].shape[1] <= 10**5)
                    elif family in draw_networks.FAMILIES:
                        self.check_network(draw, limits)
                    elif family == "launches":
                        self.assertTrue(draw.flops <= 1 << 26 if draw.flops else elements <= 1 << 20)
                    else:
                        self.assertTrue(all(1 <= size <= 8192 for view in draw.views for size in view.shape[-2:]))

    def check_network(self, draw, limits):
        """As the issue has them: f32, images of 7² to 224² of at most 512 channels, 128 to 8192 rows of 32 to 128."""
        x = draw.views[1 if draw.kernel in ("conv2d_weight", "embedding") else 0].shape
        self.assertEqual(draw.dtype, "f32")
        if draw.family in ("batch_norm", "windows", "convolutions"):
            self.assertTrue(all(size <= 224 for size in x[2:]) and x[1] <= 512 and x[0] <= 128, draw.key)
        elif draw.family == "attention":
            self.assertTrue(128 <= x[2] <= 8192 and 32 <= x[3] <= 128, draw.key)
        elif draw.family in ("norms", "activations", "losses"):
            columns = draws.count(x[1:]) // draw.options.get("num_groups", 1) if draw.kernel == "group_norm" else x[-1]
            self.assertTrue(16 <= columns <= 32768 and draws.count(x) <= 3 * limits.elements[1], draw.key)
            if draw.family == "norms":
                self.assertGreaterEqual(draws.count(x), 0.6 * limits.elements[0], draw.key)
        if draw.wanted:
            self.assertEqual(draw.views[-1].shape, draw.output_shape)
            self.assertTrue(all(draw.views[i].dtype == "f32" for i in draw.wanted))
            self.assertTrue(draw.name.startswith("backward "))

    def test_half_of_the_networks_draws_are_backward(self):
        for family in draw_networks.FAMILIES:
            share = sum(bool(draw.wanted) for draw in self.on_gpu[family]) / len(self.on_gpu[family])
            low, high = {"convolutions": (0, 0), "indexing": (0.05, 0.25)}.get(family, (0.3, 0.7))
            self.assertTrue(low <= share <= high, (family, share))

    def test_sizes_reach_from_end_to_end(self):
        sides = [side for d in self.on_gpu["products"] for side in d.views[0].shape[-2:]]
        self.assertLess(min(sides), 8)
        self.assertGreater(max(sides), 4096)
        below = sum(side <= 90 for side in sides) / len(sides)  # the middle of 1 to 8192, in logarithms
        self.assertTrue(0.2 < below < 0.6, below)
        self.assertEqual({d.name[:2] for d in self.on_gpu["products"]}, {"nn", "nt", "tn", "tt"})
        elements = [draws.count(d.output_shape) for d in self.on_gpu["elementwise"]]
        self.assertTrue(min(elements) < 100 and max(elements) > 1 << 24)

    def test_views_lie_in_their_buffers_and_layouts_vary(self):
        layouts = set()
        for some in self.on_gpu.values():
            for view in (view for draw in some for view in draw.views):
                last = view.offset + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides))
                self.assertEqual(view.elements(), last + 1)
                if view.layout == "":
                    self.assertTrue(view.is_dense() and view.offset == 0)
                layouts.add(view.layout.split(" ")[0])
        self.assertEqual(layouts, {"", "from", "step", "of", "="})

    def test_values_computed_by_name_are_the_operators(self):
        library = Library(LIBRARY, "cpu")
        buffer = [float(i) for i in range(12)]

        def computed(kernel, view, options, outputs):
            run = Run(library, draws.Draw(kernel, [view], [outputs], "f32", options=options), 2)
            values = (ctypes.c_float * len(buffer))(*buffer)
            run.write(0, ctypes.addressof(values))
            run.replicate()
            results = []
            run.capture_chain(16)
            other = run.share("never")
            for compute in (lambda: run.call(1), run.replay_chain, other.call):
                compute()
                result = (ctypes.c_float * outputs)()
                (other if compute == other.call else run).read(0, ctypes.addressof(result))
                results.append(list(result))
            self.assertGreater(run.seconds(3, CHAINS), 0)
            other.close()
            run.close()
            self.assertEqual(results[0], results[1])
            self.assertEqual(results[0], results[2])
            return results[0]
        permuted = draws.permuted_view([4, 3], [1, 0])
        self.assertEqual(computed("copy", permuted, {}, 12), [buffer[c + 4 * r] for c in range(4) for r in range(3)])
        stepped = draws.View([2, 2], [8, 2], offset=1)
        self.assertEqual(stepped.elements(), 12)
        self.assertEqual(computed("neg", stepped, {}, 4), [-1, -3, -9, -11])
        self.assertEqual(computed("sum", stepped, {"axes": [1]}, 2), [4, 20])
        with self.assertRaisesRegex(AshlarError, "requires no gradient"):
            Run(library, draws.Draw("argmax", [draws.View([4]), draws.View([1])], [1], "f32", wanted=[0])).call()
        with self.assertRaisesRegex(AshlarError, "no_such"):
            Run(library, draws.Draw("no_such", [draws.View([1])], [1], "f32"))
        with self.assertRaisesRegex(AshlarError, "axes"):
            Run(library, draws.Draw("neg", [draws.View([1])], [1], "f32", options={"axes": [0]}))

    def run_on(self, library, draw, inputs):
        """The outputs of a call, of the last of several sets and of a graph."""
        run = Run(library, draw, 2)
        for i, values in enumerate(inputs):
            array = (ctypes.c_float * len(values))(*values)
            run.write(i, ctypes.addressof(array))
        run.replicate()
        run.capture_chain(16)
        found = []
        for compute in (lambda: run.call(0), lambda: run.call(1), run.replay_chain):
            outputs = []
            for i in range(compute()):
                shape = run.tensors("outputs", 0)[i]["shape"]
                result = (ctypes.c_float * draws.count(shape))()
                run.read(i, ctypes.addressof(result))
                outputs.append(list(result))
            found.append(outputs)
        run.close()
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        return found[0]

    def test_gradients_and_layers_computed_by_name(self):
        library, vector = Library(LIBRARY, "cpu"), draws.View([3])
        a, b, dy = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [1.0, 10.0, 100.0]
        product = draws.Draw("mul", [vector] * 3, [3], "f32", wanted=[0, 1])
        self.assertEqual(self.run_on(library, product, (a, b, dy)), [[4, 50, 600], [1, 20, 300]])
        self.assertEqual(self.run_on(library, draws.Draw("mul", [vector] * 3, [3], "f32", wanted=[1]), (a, b, dy)), [[1, 20, 300]])
        images = [draws.View([1, 1, 2, 2]), draws.View([1, 1, 4, 4])]
        bigger = draws.Draw("interpolate", images[:1], [1, 1, 4, 4], "f32", options={"mode": "nearest", "size": [4, 4]})
        self.assertEqual(self.run_on(library, bigger, [[1, 2, 3, 4]]), [[1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4]])
        bigger = draws.Draw("interpolate", images, [1, 1, 4, 4], "f32", options={"mode": "nearest", "size": [4, 4]}, wanted=[0])
        self.assertEqual(self.run_on(library, bigger, [[0] * 4, [1] * 16]), [[4, 4, 4, 4]])
        # Without inputs and weights every gate is 1/2 and what is new 0: the state, or cell, is halved.
        halves = [2.0, 1.0, 0.5]
        for kernel, gates, states, expected in (("gru", 3, 1, halves), ("lstm", 4, 2, [math.tanh(c) / 2 for c in halves])):
            shapes = [[3, 1, 2], *[[1, 1]] * states, [gates, 2], [gates, 1], [gates], [gates]]
            layer = draws.Draw(kernel, [draws.View(shape) for shape in shapes], [3, 1, 1], "f32")
            values = [[4.0 if i == states else 0.0] * draws.count(shape) for i, shape in enumerate(shapes)]
            for y, right in zip(self.run_on(library, layer, values)[0], expected):
                self.assertAlmostEqual(y, right, 5)

    def test_every_operator_is_one_of_the_librarys(self):
        library = Library(LIBRARY, "cpu")
        known = set()
        library.c.ashlar_operator_name.restype = ctypes.c_char_p
        library.c.ashlar_operator_count.restype = ctypes.c_size_t
        for i in range(library.c.ashlar_operator_count()):
            known.add(library.c.ashlar_operator_name(ctypes.c_size_t(i)).decode())
        self.assertFalse({d.kernel for some in self.on_gpu.values() for d in some} - known - {"copy", "gru", "lstm", "interpolate"})


def drawn_row(index, ratio, family="layers", **more):
    return {"kernel": "matmul", "name": f"draw_{index}", "dtype": "f32", "family": family, "index": index, "size": 10.0 ** index,
            "third": "any", "shapes": [[1]], "ms": {"ashlar": 1.0, "torch eager": ratio}, **more}


class Distributions(unittest.TestCase):
    LINE = reach.Line("cuda", "work", "layers", ("torch eager",), 1.0, 0.9, 0.5, ours=("ashlar",))

    def verdict(self, rows, line=LINE):
        return distribution.verdict(line, {"rows": rows})

    def test_statistics(self):
        mean, tenth, worst = distribution.statistics_of([1.0, 2.0, 4.0, 8.0])
        self.assertAlmostEqual(mean, 2 ** 1.5)
        self.assertAlmostEqual(worst, 1.0)
        self.assertAlmostEqual(tenth, 1.3)
        self.assertAlmostEqual(distribution.statistics_of([float(i) for i in range(1, 102)])[1], 11)
        self.assertEqual(distribution.statistics_of([0.5]), (0.5, 0.5, 0.5))

    def test_enough_good_draws_reach_it(self):
        good = [drawn_row(i, 1.2) for i in range(reach.DRAWS)]
        self.assertEqual(self.verdict(good), "**reached**")
        self.assertEqual(self.verdict(good[1:]), "not measured: 1 of 100")
        self.assertEqual(self.verdict([]), "not measured: 100 of 100")
        self.assertEqual(distribution.verdict(self.LINE, None), "not measured: 100 of 100")
        self.assertEqual(self.verdict([{**row, "family": "rows"} for row in good]), "not measured: 100 of 100")
        self.assertEqual(self.verdict(good, reach.Line("cuda", "nothing asked", "layers", ())), "")

    def test_each_of_the_three_can_be_missed(self):
        self.assertEqual(self.verdict([drawn_row(i, 0.95) for i in range(100)]), "missed: geometric mean")
        self.assertEqual(self.verdict([drawn_row(i, 0.8 if i < 20 else 2.0) for i in range(100)]), "missed: tenth percentile")
        self.assertEqual(self.verdict([drawn_row(i, 2.0 if i else 0.4) for i in range(100)]), "missed: worst")

    def test_wrong_numbers_and_missing_rivals_do_not_reach_it(self):
        good = [drawn_row(i, 1.2) for i in range(99)]
        wrong = {**drawn_row(99, 1.2), "wrong": "error 1"}
        del wrong["ms"]
        self.assertEqual(self.verdict(good + [wrong]), "no numbers: 1 of 100")
        alone = {**drawn_row(99, 1.2), "ms": {"ashlar": 1.0}}
        self.assertEqual(self.verdict(good + [alone]), "no rival: 1 of 100")

    def test_who_is_compared_with_whom(self):
        row = drawn_row(0, 3.0)
        row["ms"].update({"ashlar graph": 0.5, "ashlar own": 2.0, "torch graph": 1.5, "torch compiled graph": 0.1})

        def ratio(**line):
            return distribution.ratio(row, reach.Line("cuda", "", "layers", **{"against": (), "geometric_mean": 1.0, **line}))
        self.assertEqual(ratio(), 0.2)
        self.assertEqual(ratio(against=("torch eager",), ours=("ashlar",)), 3.0)
        self.assertEqual(ratio(against=("torch graph",), ours=("ashlar graph",)), 3.0)
        self.assertEqual(ratio(against=("torch eager", "torch graph"), ours=reach.OWN), 0.75)
        opencl = reach.Line("opencl", "", "layers", ("cuda",), 0.85)
        beside = {"cuda": {"ms": {"ashlar": 0.1, "ashlar own": 0.4, "ashlar own graph": 0.3}}}
        self.assertAlmostEqual(distribution.ratio({**row, "beside": beside}, opencl), 0.6)
        self.assertIsNone(distribution.ratio(row, opencl))

    def test_lines_speak_of_families_that_there_are(self):
        self.assertFalse({line.family for line in reach.ALL} - set(draws.FAMILIES))
        for target in ("cuda", "cpu", "opencl"):
            self.assertTrue([line for line in reach.ALL if line.target == target])

    def test_the_report_of_a_file(self):
        rows = [drawn_row(i, 0.5 + i, spread={"ashlar": [0.9, 1.1], "torch eager": [i, i + 1.0]}) for i in range(12)]
        rows.append({**{k: v for k, v in drawn_row(12, 1.0).items() if k != "ms"}, "wrong": "error 2.0e-01 above 3e-05"})
        report = {"target": "cuda", "seed": "7", "threads": 2, "load": 1.5, "dates": ["today"], "versions": {"Ashlar": "1"},
                  "device": {"description": "a GPU", "driver": "d", "cpu": "c"}, "rows": rows}
        text = "\n".join(distribution.section("cuda", "CUDA", report, "plot.svg"))
        mean = distribution.statistics_of([0.5 + i for i in range(12)])[0]
        self.assertIn(f"| products + bias + activation | eager | 1.30 / 1.00 / 0.80 | {mean:.2f} / 1.60 / 0.50 | 12 | "
                      "missed: worst; no numbers: 1 of 13; not measured: 87 of 100 |", text)
        self.assertIn("| elementwise, broadcast | the quickest rival | 1.10 / 0.95 / 0.80 |  | 0 | not measured: 100 of 100 |", text)
        self.assertIn("- layers 12: matmul/draw_12/f32: error 2.0e-01 above 3e-05", text)
        self.assertIn("| 0.50 | matmul draw_0 | f32 | ashlar 1000.0 ±10% | torch eager 500.0 ±100% |", text)
        self.assertIn("matmul draw_9 |", text)
        self.assertNotIn("matmul draw_10 |", text)
        self.assertIn("Seed 7", text)
        self.assertNotIn("reached**", text)

    def test_draws_that_a_driver_does_not_hide(self):
        rows = [{**drawn_row(i, 1.0), "ms": {"ashlar": 0.1}, "beside": {"cuda": {"ms": {"ashlar": 0.01 if i else 0.08}}}}
                for i in range(3)]
        lines = list(distribution.reach_lines("opencl", {"rows": rows}))
        self.assertEqual(len(lines[0]), len(distribution.reach_header("opencl")))
        self.assertEqual([line[4] for line in lines if line[3]], ["0.80 (1)"])
        self.assertNotIn("0.80 (1)", str(list(distribution.reach_lines("cuda", {"rows": rows}))))

    def test_a_file_is_gone_on_with(self):
        head = {"target": "cpu", "seed": "1", "device": {"description": "x"}, "versions": {"Ashlar": "1"}, "load": 1.0}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cpu.jsonl")
            distribution.File(path, head).add(drawn_row(3, 1.0))
            with open(path, "a", encoding="utf-8") as file:
                file.write('{"kernel": "mat')  # killed while it wrote
            self.assertEqual(len(distribution.read(path)["rows"]), 1)
            again = distribution.File(path, {**head, "load": 3.0})
            self.assertEqual(again.done, {("layers", 3)})
            again.add(drawn_row(4, 1.0))
            report = distribution.read(path)
            self.assertEqual([row["index"] for row in report["rows"]], [3, 4])
            self.assertEqual((report["load"], report["seed"]), (3.0, "1"))
            with self.assertRaisesRegex(results.WrongFile, "seed"):
                distribution.File(path, {**head, "seed": "2"})
            other = os.path.join(folder, "other.jsonl")
            distribution.File(other, {**head, "seed": "2", "versions": {"Ashlar": "2", "a rival": "3"}}).add(drawn_row(0, 1, "rows"))
            with open(path, "a", encoding="utf-8") as file, open(other, encoding="utf-8") as more:
                file.write(more.read())
            both = distribution.read(path)
            self.assertEqual((both["seed"], both["versions"]), ("1 and 2", {"Ashlar": "1 and 2", "a rival": "3"}))
            self.assertEqual([row["family"] for row in both["rows"]], ["layers", "layers", "rows"])
            with open(path, "rb") as file, open(path + ".xz", "wb") as packed:
                packed.write(lzma.compress(file.read()))
            self.assertEqual(distribution.read(path + ".xz"), both)
            self.assertEqual(distribution.file_of(folder, "cpu"), path, "what was measured last")
            os.rename(path, path + ".away")
            self.assertEqual(distribution.file_of(folder, "cpu"), path + ".xz")
            self.assertIsNone(distribution.file_of(folder, "cuda"))
            os.rename(path + ".away", path)
            with open(path + ".xz", "rb+") as packed:
                packed.truncate(os.path.getsize(path + ".xz") // 2)
            with self.assertRaisesRegex(results.WrongFile, "isn't whole"):
                distribution.read(path + ".xz")
            for text in ("", "{}", "[1]\n", "no\nJSON\n"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                with self.assertRaises(results.WrongFile, msg=text):
                    distribution.read(path)


# Stands in for the rivals of measure_draws.py in a folder of its own: draws of the family named by BAD end the process, hang or
# throw.
PRETENDING = """
import os, signal, sys, time
sys.path.insert(0, {folder!r})
import measure_draws

class Rival:
    versions = {{}}
    def cache_bytes(self): return 1
    def clean(self): pass
    is_corrupt = False
    def compute_something(self):
        if Rival.is_corrupt: raise RuntimeError("corrupt")

def measured(self, draw):
    how = os.environ["HOW"]
    Rival().compute_something()
    if (draw.family, draw.index) == ("rows", 1):
        if how == "kill": os.kill(os.getpid(), signal.SIGSEGV)
        if how == "hang": time.sleep(60)
        Rival.is_corrupt = how == "corrupt"
        raise RuntimeError("broke")
    return {{"cpu": {{"kernel": draw.kernel, "name": draw.name, "dtype": draw.dtype, "family": draw.family, "index": draw.index,
                    "ms": {{"ashlar": 1.0}}}}}}

measure_draws.__file__ = __file__
measure_draws.make_rival = lambda options, threads: Rival()
measure_draws.DrawMeasurer.measure = measured
measure_draws.DrawMeasurer.__init__ = lambda self, *arguments: None
sys.exit(measure_draws.main())
"""


class MeasuringDraws(unittest.TestCase):
    def run_with(self, how, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "pretending.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write(PRETENDING.format(folder=FOLDER))
            result = subprocess.run([sys.executable, script, "--library", LIBRARY, "--results", folder, "--families",
                                     "rows,layers", "--count", "3", *arguments], capture_output=True, text=True,
                                    env={**os.environ, "HOW": how})
            path = os.path.join(folder, "cpu.jsonl")
            rows = distribution.read(path)["rows"] if os.path.exists(path) else []
        return result.returncode, result.stdout + result.stderr, {(r["family"], r["index"]): r.get("wrong") for r in rows}

    def test_a_draw_that_kills_hangs_or_throws_is_a_row_and_the_others_go_on(self):
        for how, why, *arguments in (("kill", "the process ended with signal 11"), ("throw", "RuntimeError: broke"),
                                     ("corrupt", "RuntimeError: broke"),
                                     ("hang", "takes longer than 4 s", "--patience", "4")):
            code, text, rows = self.run_with(how, *arguments)
            self.assertEqual(code, 1, text)
            self.assertEqual(rows, {(family, i): why if (family, i) == ("rows", 1) else None
                                    for family in ("rows", "layers") for i in range(3)}, text)

    def test_the_limit_leaves_draws_over(self):
        code, text, rows = self.run_with("throw", "--limit", "0")
        self.assertEqual((code, rows), (3, {}), text)

    def test_families_that_there_are_not(self):
        code, text, _ = self.run_with("throw", "--families", "rows,colums")
        self.assertEqual(code, 2)
        self.assertIn("there are elementwise", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
