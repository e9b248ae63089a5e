#!/usr/bin/env python3
"""operators.py BUILD/generators/ashlar_ops/include/ashlar [--check]: writes docs/operators.md, a row for each operator.

Formula, dtypes and gradient are what the build wrote over the functions that it made of the operators' descriptors
(ops/*.h, ad/*.h); targets are those of docs/support.md. What is made of operators stands in composed_operators.py; its
gradient and targets are those that all of its parts have. With --check it writes nothing and fails when the page says
anything else.
"""
import re
import sys
from pathlib import Path

import composed_operators as made

PAGE = Path(__file__).parent.parent / "docs" / "operators.md"
SUPPORT = PAGE.with_name("support.md")
# In PyTorch under the same name, but for these; "" has no counterpart.
TORCH_NAMES = {
    "gelu_tanh": "gelu(approximate='tanh')",
    "compensated_sum": "",
    "conv2d_input": "grad.conv2d_input",
    "conv2d_weight": "grad.conv2d_weight",
    "dot_i8": "_int_mm",
    "add_rms_norm": "",
    "add_layer_norm": "",
    "quantize_rows": "",
    "dequantize_rows": "",
    "quantize_int8": "",
    "dequantize_int8": "",
    "sample_top_k": "",
    "swiglu": "",
    "geglu": "",
    "take_along": "take_along_dim",
    "kl_div_of_log_target": "kl_div(log_target=True)",
    "concat": "cat",
    "cross_entropy": "cross_entropy(reduction='none')",
    "cross_entropy_loss": "cross_entropy",
    "feature_dropout": "dropout1d, dropout2d, dropout3d",
    "max_pool2d_with_indices": "max_pool2d(return_indices=True)",
    "adaptive_max_pool2d_with_indices": "adaptive_max_pool2d(return_indices=True)",
    "norm_weight_sums": "",
    "jagged_to_padded": "_jagged_to_padded_dense_forward",
    "padded_to_jagged": "_padded_dense_to_jagged_forward",
    "varlen_attn": "nn.attention.varlen.varlen_attn",
    "uniform": "Tensor.uniform_",
    "draw_by_forecast": "",
    "update_forecasts": "",
    "trunc_normal": "nn.init.trunc_normal_",
    "dropout_at": "dropout",
    "attention_dropout_at": "scaled_dot_product_attention(dropout_p=p)",
    "rnn_sequence": "nn.RNN",
    "gru_sequence": "nn.GRU",
    "lstm_sequence": "nn.LSTM",
    "rope": "",
    "affine": "",
    "equal": "eq",
    "adagrad_step": "optim.Adagrad",
    "adam_step": "optim.Adam, AdamW",
    "average_step": "optim.swa_utils.AveragedModel",
    "lion_step": "",
    "repeat": "Tensor.repeat",
    "nadam_step": "optim.NAdam",
    "rmsprop_step": "optim.RMSprop",
    "sgd_step": "optim.SGD",
    "cholesky": "linalg.cholesky",
    "solve_triangular": "linalg.solve_triangular",
    "qr": "linalg.qr",
    "svd": "linalg.svd(full_matrices=False)",
}
DIFFERENCES = [
    "- Indices count from the front. One outside is an `IndexError` on the CPU; a GPU doesn't look, and reads NaN.",
    "- Tensors come before options: `group_norm(x, weight, bias, num_groups)`.",
    "- `layer_norm`, `rms_norm` and their kin normalise along one axis; the modules take shapes. `rms_norm` adds 1e-5",
    "  where nothing else is given, the module what PyTorch's adds.",
    "- Functions of random numbers take their state first, so that a replayed graph goes on with new ones, and give f32.",
    "- `interpolate` takes one scale_factor for all axes (`nn::interpolate` one for each, too) and has no bicubic, area and",
    "  nearest-exact; 0 is none. `triplet_margin_loss` has p = 2 alone.",
    "- `clamp` of two doubles (an infinite one is no bound) computes in f32; two integers, tensors or Numbers keep x's",
    "  dtype.",
    "- `equal` is element by element, 1 or 0 in the operands' dtype; `eq` gives bool.",
    "- `max(x, axis)` and `min(x, axis)` give no indices.",
    "- `sort` and `argsort` are stable, `topk` is sorted, always. `scatter` writes tensors, without a reduction.",
    "- `svd` is for matrices whose shorter side has at most 128 elements; `qr` and `svd` are reduced ones.",
    "- `embedding_bag` takes the index first, as `embedding` does, and -1 for no padding_idx. NaN is a bag's maximum",
    "  wherever it stands, in PyTorch where it comes first. On a GPU nobody looks whether offsets rise.",
    "- `svd_lowrank` takes the rank that is wanted and oversampling = 8 beside it, where PyTorch's q = 6 is both together.",
    "- `cholesky` of what isn't positive definite gives NaN from the column where that shows; PyTorch throws.",
    "- `nn::cross_entropy(logits, labels)` without options has no ignore_index: a label outside of the classes, -100 too, makes",
    "  the loss NaN. With options ignore_index is -100, as in PyTorch.",
    "- A `scale` of 0 means 1/√width in `scaled_dot_product_attention`, `attention_dropout_at` and `varlen_attn`, as None does in",
    "  PyTorch, where 0 is a scale.",
    "- A boolean mask of `MultiheadAttention` and of the transformers is true where a key takes part, `attn_mask` and `key_mask`",
    "  alike, as in `scaled_dot_product_attention`; true hides in torch.nn.MultiheadAttention's attn_mask and",
    "  key_padding_mask. A query that sees no key gets 0 instead of NaN. There is no add_bias_kv and no add_zero_attn.",
    "- `RNN`, `GRU`, `LSTM`, their cells and `MultiheadAttention` refuse input without a batch (ShapeError; unsqueeze() it).",
    "  `LSTM` has no proj_size. Rows of several lengths come with `lengths`, not packed.",
    "- `varlen_attn` takes is_causal where PyTorch's has window_size = (-1, 0); both put each diagonal into the lower",
    "  right corner, `scaled_dot_product_attention` into the upper left. On a GPU nobody looks whether offsets rise; max_q and",
    "  max_k say nothing there but to gradients of gradients, which take rows for the longest sequence.",
    "- `scaled_dot_product_attention` is computed in f32; what it keeps of the scores is bounded, not tile by tile",
    "  ([architecture.md](architecture.md)).",
]
DTYPE_ORDER = ["f32", "f16", "bf16", "f64", "i64", "i32", "i16", "i8", "u32", "u16", "u8", "bool"]


def functions(folder):
    """(name, comment lines) of each function that the build made."""
    for header in sorted(folder.glob("*.h")):
        for match in re.finditer(r"((?:^///.*\n)+)^\w[\w:<>]* (\w+)\(", header.read_text(), re.M):
            yield match[2], [line.removeprefix("///").strip() for line in match[1].splitlines()]


def differentiable(include):
    """Operators whose recording function has a gradient."""
    return {
        name for name, comment in functions(include / "ad") if not any("states no gradient" in line for line in comment)
    }


def targets():
    """Those of each kernel, by the support table's columns: ("CPU", "OpenCL", "CUDA")."""
    result, heads = {}, []
    for line in SUPPORT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| kernel"):
            heads = [head.split(" ")[0] for head in cells]
        elif line.startswith("| ") and heads:
            found = [head for head, cell in zip(heads, cells) if head in ("CPU", "OpenCL", "CUDA") and cell != "–"]
            result[cells[0]] = " ".join(dict.fromkeys(found))
    return result


def declared(text):
    """{function: comment over it} of a header: those that give or write tensors, but for what is `detail`."""
    declaration = re.compile(r"(?:inline )?(?:Tensor|Var|std::vector<T>|void) (\w+)\(")
    result, comment, is_read, is_detail = {}, [], False, False
    for line in text.splitlines():
        is_detail = (is_detail or line == "namespace detail {") and not line.startswith("}")
        match = declaration.match(line)
        if line.startswith("///"):
            comment = [*([] if is_read else comment), line.removeprefix("///").strip()]
            is_read = False
        elif not line:
            comment = []
        elif match and not is_detail:
            is_read = True
            result.setdefault(match[1], comment)
    return result


class Composed:
    """Gradients and targets of what is made of operators, by its parts."""

    def __init__(self, gradients, where):
        self.gradients, self.where = set(gradients) | made.OF_TENSORS, {**where, "views": where["copy"]}
        self.rows = {}  # name: (what carries the gradient, what doesn't)
        for name, _, parts, _ in [row for rows in made.FUNCTIONS.values() for row in rows] + made.LAYERS:
            carrying, _, others = parts.partition(";")
            for one in [name.split("(")[0]] if "(" in name else name.split():
                self.rows[one] = (carrying.split(), others.split())

    def targets(self, name):
        if name in self.where:
            return self.where[name].split()
        if name not in self.rows:
            raise SystemExit(f"composed_operators.py: no operator, function or layer {name}")
        carrying, others = self.rows[name]
        return self.where_all_run(carrying + others)

    def where_all_run(self, parts):
        found = [self.targets(part) for part in parts]
        return [target for target in ("CPU", "OpenCL", "CUDA") if all(target in of for of in found)]

    def has_gradient(self, name):
        if name in self.gradients:
            return True
        carrying = self.rows.get(name, ([], []))[0]
        return bool(carrying) and all(self.has_gradient(part) for part in carrying)

    def cells(self, types, parts):
        """Element types, gradient, targets and parts as cells of a row."""
        carrying, _, others = parts.partition(";")
        for part in carrying.split():
            if not self.has_gradient(part):
                raise SystemExit(f"composed_operators.py: {part} has no gradient to carry")
        targets = self.where_all_run(carrying.split() + others.split())
        parts = dict.fromkeys(carrying.split() + others.split())
        names = " ".join(part if part == "views" else f"`{part}`" for part in parts)
        return f"{types} | {'✓' if carrying.split() else '–'} | {' '.join(targets)} | {names}"


def composed(parts_of):
    """Rows of the functions, of which each header has exactly these."""
    root, rows = PAGE.parent.parent, {}
    on_the_tape = declared((root / "ashlar/var_arithmetic.h").read_text())
    for header, functions_of in made.FUNCTIONS.items():
        text = (root / header).read_text()
        comments = declared(text)
        listed = {name.split("(")[0] for name, *_ in functions_of}
        if listed != comments.keys():
            raise SystemExit(f"composed_operators.py: {header} has other functions: {sorted(listed ^ comments.keys())}")
        for name, types, parts, formula in functions_of:
            plain = name.split("(")[0]
            is_recorded = plain in on_the_tape or re.search(rf"^(?:inline )?(?:Var|std::vector<T>) {plain}\(", text, re.M)
            if bool(parts.partition(";")[0].split()) != bool(is_recorded):
                raise SystemExit(f"composed_operators.py: {name} of {header} does{'' if is_recorded else ' not'} take Vars")
            whole = " ".join(comments[plain]).rstrip(".")
            said = formula or re.split(r"(?<=\w[)\w²])\. (?=[A-Z])", whole)[0]
            cells = f"| `{name}` | `{header}` | {parts_of.cells(types, parts)} | " + said.replace("|", "\\|") + " |"
            rows[(name, header)] = cells
    return [rows[key] for key in sorted(rows)]


def layers(parts_of):
    """Rows of the modules, of which nn/modules has exactly these."""
    root = PAGE.parent.parent
    headers = {}
    for header in sorted((root / "nn" / "modules").glob("*.h")):
        for template, name in re.findall(r"^(template <.*>\n)?class (\w+)\s*: public", header.read_text(), re.M):
            if not template or name == "Residual":
                headers[name] = header.relative_to(root)
    listed = {name for names, *_ in made.LAYERS for name in names.split()}
    if listed | made.CONTAINERS - {"ModuleList", "ModuleDict"} != headers.keys():
        wrong = (listed | made.CONTAINERS - {"ModuleList", "ModuleDict"}) ^ headers.keys()
        raise SystemExit(f"composed_operators.py: nn/modules has other layers: {sorted(wrong)}")
    rows = []
    for names, types, parts, formula in made.LAYERS:
        shown = ", ".join(f"`{name}`" for name in names.split())
        where = headers[names.split()[0]]
        rows.append(f"| {shown} | `{where}` | {parts_of.cells(types, parts)} | " + formula.replace("|", "\\|") + " |")
    return rows


def page(include):
    gradients, where, rows = differentiable(include), targets(), {}
    for name, comment in functions(include / "ops"):
        dtypes = [line for line in comment if line.startswith("dtypes: ")]
        # Gradients are named after what they belong to; parts and last are two passes of one reduction.
        if not dtypes or name.endswith(("_grad", "_parts", "_last")) or name in rows:
            continue
        given = dtypes[0].removeprefix("dtypes: ").split(". ")[0].split(", ")
        if set(given) - set(DTYPE_ORDER):
            raise SystemExit(f"operators.py: {name} has element types that the page has no place for: {given}")
        listed = " ".join(sorted(given, key=DTYPE_ORDER.index))
        formula = " ".join(comment[: comment.index(dtypes[0])]).replace("|", "\\|")
        torch_name = TORCH_NAMES.get(name, name)
        shown = f"`{torch_name}`" if torch_name else "–"
        has_gradient = "✓" if name in gradients else "–"
        rows[name] = (
            f"| `{name}` | {shown} | {listed} | {has_gradient} | {where.get(name, '–')} | {formula} |"
        )
    parts_of = Composed(gradients, where)
    unknown = TORCH_NAMES.keys() - rows.keys()
    if unknown:
        raise SystemExit(f"operators.py: no operator {', '.join(sorted(unknown))}")
    return "\n".join(
        [
            "# Operators",
            "",
            "Written by `scripts/operators.py` from the operators' descriptors; don't edit. Each is a function",
            "`ashlar::NAME` of tensors and, recorded on the tape, `ashlar::ad::NAME` of Vars",
            "(`ashlar/ops.h`, `ashlar/ad.h`), and is called by its name from C. Element types are those with kernels of",
            "their own; others are converted as [architecture.md](architecture.md) says. Gradients have functions named",
            "`NAME_grad`. PyTorch's names stand in `torch` or `torch.nn.functional`. What was run where is in",
            "[support.md](support.md). What is made of these stands [below](#made-of-these), [layers](#layers) too.",
            "",
            "| operator | in PyTorch | element types | gradient | targets | formula |",
            "|---|---|---|---|---|---|",
            *(rows[name] for name in sorted(rows)),
            "",
            "## Made of these",
            "",
            "Functions in C++ that call operators. Element types are those that they take (`all`: f32 f64 f16 bf16 i8 i16 i32",
            "i64 u8 u16 u32 bool); Tensors and numbers meet by PyTorch's rule. What has a gradient takes Vars and is recorded:",
            "it is differentiated by its parts. It runs where all of them run, the parts' columns above say where.",
            "",
            "| function | header | element types | gradient | targets | made of | what it gives |",
            "|---|---|---|---|---|---|---|",
            *composed(parts_of),
            "",
            "## Layers",
            "",
            "Modules of `ashlar::nn`, likewise, with torch.nn's names but for `GELUTanh` (`GELU(approximate='tanh')`),",
            "`InstanceNorm` (of any rank) and `Residual`. `Sequential`, `ModuleList`, `ModuleDict`, `ParameterList` and",
            "`ParameterDict` hold others and compute nothing of their own.",
            "[write-a-module.md](how-to/write-a-module.md) says how to make one.",
            "",
            "| layer | header | element types | gradient | targets | made of | what it gives |",
            "|---|---|---|---|---|---|---|",
            *layers(parts_of),
            "",
            "## Where they differ from PyTorch",
            "",
            *DIFFERENCES,
            "",
        ]
    )


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    text = page(Path(sys.argv[1]))
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        raise SystemExit(
            "docs/operators.md is out of date: an operator's formula, element types, gradient or targets have changed.\n"
            f"Run scripts/operators.py {sys.argv[1]} and commit what it writes."
        )


if __name__ == "__main__":
    main()
