#!/usr/bin/env python3
"""operators.py BUILD/generators/ashlar_ops/include/ashlar [--check]: writes docs/operators.md, a row for each operator.

Formula, dtypes and gradient are what the build wrote over the functions that it made of the operators' descriptors
(ops/*.h, ad/*.h); targets are those of docs/support.md. With --check it writes nothing and fails when the page says
anything else.
"""
import re
import sys
from pathlib import Path

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
# Headers of functions that are made of operators.
COMPOSED = [
    "ashlar/arithmetic.h",
    "ashlar/splitting.h",
    "nn/functional.h",
    "nn/init.h",
    "nn/loss.h",
    "nn/modules/upsample.h",
    "runtime/tensor/tensor.h",
]
DIFFERENCES = [
    "- Indices count from the front. One outside is an `IndexError` on the CPU; a GPU doesn't look, and reads NaN.",
    "- Tensors come before options: `group_norm(x, weight, bias, num_groups)`.",
    "- `layer_norm`, `rms_norm` and their kin normalise along one axis; the modules take shapes. `rms_norm` adds 1e-5",
    "  where nothing else is given, the module what PyTorch's adds.",
    "- Functions of random numbers take their state first, so that a replayed graph goes on with new ones, and give f32.",
    "- `clamp` of two doubles (an infinite one is no bound) computes in f32; two integers, tensors or Numbers keep x's",
    "  dtype.",
    "- `max(x, axis)` and `min(x, axis)` give no indices.",
    "- `sort` and `argsort` are stable, `topk` is sorted, always. `scatter` writes tensors, without a reduction.",
    "- `svd` is for matrices whose shorter side has at most 128 elements; `qr` and `svd` are reduced ones.",
    "- `embedding_bag` takes the index first, as `embedding` does, and -1 for no padding_idx. NaN is a bag's maximum",
    "  wherever it stands, in PyTorch where it comes first. On a GPU nobody looks whether offsets rise.",
    "- `varlen_attn` takes is_causal where PyTorch's has window_size = (-1, 0); both put each diagonal into the lower",
    "  right corner, `scaled_dot_product_attention` into the upper left. Its memory is that of as many rows of the longest",
    "  sequence; on a GPU nobody looks whether offsets rise and max_q and max_k are as long.",
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


def composed():
    """Rows of the functions that are made of operators: what stands over each in its header."""
    root, rows = PAGE.parent.parent, {}
    declaration = re.compile(r"(?:inline )?(?:Tensor|Var|std::vector<T>|void) (\w+)\(")
    for header in COMPOSED:
        comment, is_read, is_detail = [], False, False
        for line in (root / header).read_text().splitlines():
            is_detail = (is_detail or line == "namespace detail {") and not line.startswith("}")
            match = declaration.match(line)
            if line.startswith("///"):
                comment = [*([] if is_read else comment), line.removeprefix("///").strip()]
                is_read = False
            elif not line:
                comment = []
            elif match and comment and not is_detail:
                is_read = True
                first = re.split(r"(?<=\w[)\w²])\. (?=[A-Z])", " ".join(comment).rstrip("."))[0].replace("|", "\\|")
                rows.setdefault((match[1], header), f"| `{match[1]}` | `{header}` | {first} |")
    return [rows[key] for key in sorted(rows)]


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
            "[support.md](support.md). What is made of these stands [below](#made-of-these).",
            "",
            "| operator | in PyTorch | element types | gradient | targets | formula |",
            "|---|---|---|---|---|---|",
            *(rows[name] for name in sorted(rows)),
            "",
            "## Made of these",
            "",
            "Functions in C++ that call the operators above, on all devices and, where they take Vars, recorded: written",
            "from the comments over them.",
            "",
            "| function | header | what it gives |",
            "|---|---|---|",
            *composed(),
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
