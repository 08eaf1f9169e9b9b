"""Report of `cpu_speed.py`: tables and plots."""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Mapping

import report
from cpu_systems import REFERENCE, SYSTEMS
from cpu_work import UNCOMPARED

_TITLES = {
    "rate": "Matrix products",
    "forward": "Forward pass, full rows",
    "step": "Pretraining step",
    "text": "Real text, in batches of 32, tokenization included",
    "finetune": "Fine-tuning on real text",
    "embed": "Reviews to embeddings",
    "start": "From a process's start to its first result",
    "memory": "Peak resident memory of the process",
    "growth": "Growth of cost",
}


def quantity(part: str, value: float) -> str:
    """Formats a value with the unit of its table."""
    if part == "rate":
        return f"{value / 1e9:,.0f} GFLOP/s"
    if part == "memory":
        return f"{value / 2**20:,.0f} MiB"
    if part == "start":
        return f"{value:.1f} s"
    return f"{1e3 * value:,.1f} ms"


def best_rates(results: Mapping) -> dict[str, float]:
    """Returns the best library's operations per second, by precision."""
    rates: dict[str, float] = {}
    for work in results["work"].values():
        if work["part"] != "rate":
            continue
        for name, found in work["systems"].items():
            precision = SYSTEMS[name].precision
            value = statistics.median(found["values"])
            rates[precision] = max(value, rates.get(precision, 0.0))
    return rates


def to_markdown(results: Mapping) -> str:
    """Returns machine, versions, commands and the tables as Markdown."""
    machine = results["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in results["versions"].items())
    lines = [
        f"- {machine['cpu']} ({machine['features'] or 'no AVX-512'}), "
        f"{machine['cores']} cores, {results['threads']} threads, "
        f"{machine['system']}",
        f"- Python {machine['python']}, {versions}",
        *(
            f"- `{run['command']}`, load before: {run['load']:.1f}"
            for run in results["runs"]
        ),
    ]
    rates = best_rates(results)
    part = ""
    for name, work in results["work"].items():
        if work["part"] != part:
            part = work["part"]
            lines += ["", f"## {_TITLES[part]}"]
        texts = f", {work['texts']} texts" if work["texts"] else ""
        lines += ["", f"`{name}`{texts}:", "", _table(work, rates)]
        for reason in ("failures", "skipped"):
            lines += [
                f"- {_title(system)}: {reason}: {why}"
                for system, why in work[reason].items()
            ]
    lines += [
        f"- `{name}` skipped: {why}" for name, why in results["skipped"].items()
    ]
    return "\n".join(lines) + "\n"


def _table(work: Mapping, rates: Mapping[str, float]) -> str:
    """Returns a table with a row per system and ratios within turns."""
    systems, part = work["systems"], work["part"]
    compared = work["kind"] not in UNCOMPARED
    counted = work["flops"] and part not in ("start", "memory")
    header = ["system", "precision", "median (min)"]
    if compared:
        header += ["times ours, float32", "times ours, same precision"]
    if counted:
        header.append("share of product rate")
    if work["texts"]:
        header.append("texts/s")
    if compared:
        header.append("error")
    rows = []
    for name, found in systems.items():
        system, values = SYSTEMS[name], found["values"]
        middle = statistics.median(values)
        row = [
            system.title,
            system.precision,
            f"{quantity(part, middle)} ({quantity(part, min(values))})",
        ]
        if compared:
            row += [
                _ratio(values, systems, REFERENCE),
                _ratio(values, systems, f"albert_tf_{system.precision}"),
            ]
        if counted:
            rate = rates.get(system.precision)
            row.append(f"{work['flops'] / middle / rate:.0%}" if rate else "-")
        if work["texts"]:
            row.append(f"{work['texts'] / middle:,.1f}")
        if compared:
            row.append(f"{found['error']:.0e}")
        rows.append(row)
    return report.table(header, rows)


def _ratio(values, systems, name) -> str:
    if name not in systems:
        return "-"
    return report.ratios(values, systems[name]["values"])


def _title(name: str) -> str:
    return f"{SYSTEMS[name].title}, {SYSTEMS[name].precision}"


def write(results: Mapping, folder: pathlib.Path) -> None:
    """Writes `report.md`, `speed.png` and `growth.png`."""
    (folder / "report.md").write_text(to_markdown(results))
    import matplotlib

    matplotlib.use("Agg")
    _plot_speed(results, folder / "speed.png")
    _plot_growth(results, folder / "growth.png")


def _plot_speed(results: Mapping, path: pathlib.Path) -> None:
    """Plots medians as bars, with a panel for each workload."""
    import matplotlib.pyplot as plt

    panels = {
        name: work
        for name, work in results["work"].items()
        if work["part"] not in ("growth", "rate") and work["systems"]
    }
    if not panels:
        return
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(6.5 * columns, 4 * rows), squeeze=False
    )
    colors = {
        "float32": "tab:blue",
        "bfloat16": "tab:orange",
        "int8": "tab:green",
    }
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (name, work) in zip(axes.flat, panels.items(), strict=False):
        found = sorted(
            work["systems"], key=lambda x: -_middle(work["systems"][x])
        )
        values = [_middle(work["systems"][x]) for x in found]
        bars = axis.barh(
            [_title(x) for x in found],
            values,
            color=[colors[SYSTEMS[x].precision] for x in found],
        )
        axis.bar_label(
            bars, [quantity(work["part"], x) for x in values], padding=3
        )
        for label, system in zip(axis.get_yticklabels(), found, strict=True):
            ours = SYSTEMS[system].title.startswith("albert_tf")
            label.set_fontweight("bold" if ours else "normal")
        axis.set_xlim(0, 1.25 * max(values))
        axis.set_xticks([])
        axis.set_title(name)
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _plot_growth(results: Mapping, path: pathlib.Path) -> None:
    """Plots time and FLOPs, both relative to the smallest workload."""
    import matplotlib.pyplot as plt

    works = [x for x in results["work"].values() if x["part"] == "growth"]
    panels = {
        "depth": [x for x in works if "-depth" in x["model"]],
        "width": [x for x in works if "-width" in x["model"]],
        "length": [x for x in works if _plain(x) and x["case"][:2] == "4x"],
        "batch": [x for x in works if _plain(x) and x["case"][-4:] == "x128"],
    }
    panels = {name: found for name, found in panels.items() if len(found) > 1}
    if not panels:
        return
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5 * len(panels), 4.5), squeeze=False
    )
    for axis, (panel, found) in zip(axes.flat, panels.items(), strict=True):
        found = sorted(found, key=lambda work: work["flops"])
        sizes = [_size(panel, work) for work in found]
        base = found[0]["flops"]
        axis.plot(
            sizes, [x["flops"] / base for x in found], "k--", label="FLOPs"
        )
        for name in SYSTEMS:
            if all(name in work["systems"] for work in found):
                times = [_middle(work["systems"][name]) for work in found]
                axis.plot(
                    sizes,
                    [x / times[0] for x in times],
                    marker="o",
                    label=_title(name),
                )
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        axis.set_xticks(sizes, [str(x) for x in sizes])
        axis.set_xlabel(panel)
        axis.set_ylabel("time, relative to the smallest")
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _plain(work) -> bool:
    return "-" not in work["model"]


def _size(panel, work) -> int:
    if panel in ("depth", "width"):
        return int(work["model"].partition(panel)[2])
    batch, length = work["case"].split("x")
    return int(length if panel == "length" else batch)


def _middle(found) -> float:
    return statistics.median(found["values"])
