"""The report's plots, as SVG that depends on the measurements alone: no date, no random names, text as text."""
import re

import matplotlib

from results import key, ours, ratio, rivals_of

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams.update({"svg.hashsalt": "ashlar", "svg.fonttype": "none", "font.family": "sans-serif",
                            "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
OURS, THEIRS, LIMIT = "#1b6ca8", "#c8553d", "#888888"


def save(figure, path):
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    with open(path, encoding="utf-8") as file:
        lines = [re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", line.rstrip()) for line in file]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def ratios(rows, _bandwidth, title, path):
    """A bar for each benchmark: the quickest rival's time over ours."""
    shown = [(key(row).replace("/", " "), ratio(row))
             for row in rows if rivals_of(row)]
    figure, axes = plt.subplots(figsize=(7, 0.6 + 0.17 * max(1, len(shown))))
    values = [value for _, value in shown]
    axes.barh(range(len(shown)), values, height=0.7, color=[OURS if v >= 1 else THEIRS for v in values])
    axes.set_yticks(range(len(shown)), [name for name, _ in shown], fontsize=7)
    axes.invert_yaxis()
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.axvline(1, color=LIMIT, linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axes.set_xlabel("quickest rival's time / ours (right of 1: Ashlar is faster)")
    axes.set_title(title, loc="left")
    save(figure, path)


def roofline(rows, bandwidth, title, path):
    """Operations a second over operations per byte; sums and copies count one operation for each element read."""
    figure, axes = plt.subplots(figsize=(7, 4.2))
    points = {"ours": [], "theirs": []}
    for row in rows:
        operations = row["flops"] or sum(count(shape) for shape in row["shapes"])
        intensity = operations / row["bytes"]
        points["ours"].append((intensity, operations / ours(row)[1] / 1e6))
        if rivals_of(row):
            points["theirs"].append((intensity, operations / min(rivals_of(row).values()) / 1e6))
    peak = max((rate for _, rate in points["ours"] + points["theirs"]), default=1)
    xs = [x for x, _ in points["ours"]] or [1]
    low, high = min(xs) / 2, max(max(xs) * 2, 4 * peak * 1e9 / bandwidth)
    knee = peak * 1e9 / bandwidth
    axes.plot([low, knee, high], [low * bandwidth / 1e9, peak, peak], color=LIMIT, linewidth=1,
              label=f"copy bandwidth {bandwidth / 1e9:.0f} GB/s and the highest rate seen")
    for who, colour, marker in (("theirs", THEIRS, "x"), ("ours", OURS, "o")):
        label = "Ashlar" if who == "ours" else "quickest rival"
        axes.scatter(*zip(*points[who]) if points[who] else ([], []), s=14, color=colour, marker=marker, label=label,
                     linewidths=0.9)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("Goperations/s")
    axes.set_title(title, loc="left")
    axes.legend(frameon=False)
    save(figure, path)


def distribution(panels, title, path):
    """The ratio of each draw over its size; `panels` are (title, what sizes are, [(size, ratio)])."""
    columns = 2
    lines = -(-len(panels) // columns)
    figure, grid = plt.subplots(lines, columns, figsize=(8, 0.6 + 2.3 * lines), squeeze=False)
    for axes in grid.flat[len(panels):]:
        axes.set_axis_off()
    for axes, (name, unit, points) in zip(grid.flat, panels):
        for colour, which in ((OURS, [p for p in points if p[1] >= 1]), (THEIRS, [p for p in points if p[1] < 1])):
            axes.scatter(*zip(*which) if which else ([], []), s=9, color=colour, linewidths=0)
        axes.axhline(1, color=LIMIT, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        axes.set_title(name, loc="left", fontsize=8)
        axes.set_xlabel(unit, fontsize=8)
    figure.suptitle(f"{title}: rival's time / ours (above 1: Ashlar is faster)", x=0.02, ha="left")
    figure.tight_layout()
    save(figure, path)


def count(shape):
    product = 1
    for size in shape:
        product *= size
    return product
