"""Formatting of measurements and of the machine that they were made on."""

from __future__ import annotations

import os
import pathlib
import platform
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence

# CPU flags of Linux that determine the speed of matrix products.
_FEATURES = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "VNNI",
    "avx512_bf16": "AVX512-BF16",
    "amx_bf16": "AMX-BF16",
    "amx_int8": "AMX-INT8",
}


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def command() -> str:
    """Returns the command line that started this program."""
    script = pathlib.Path(sys.argv[0])
    return shlex.join(["python", f"benchmarks/{script.name}", *sys.argv[1:]])


def machine() -> dict[str, str | int | float]:
    """Returns processor, cores, system, Python version and current load.

    `load` is the average number of busy processes in the last minute. If it is
    far above 0 before a measurement, do not trust the measurement.
    """
    return {
        "cpu": _cpu_field("model name") or platform.processor() or "unknown",
        "features": ", ".join(
            name
            for flag, name in _FEATURES.items()
            if flag in _cpu_field("flags").split()
        ),
        "cores": available_cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def description(
    here: Mapping[str, str | int | float],
    versions: Mapping[str, str],
    threads: int | None = None,
) -> str:
    """Formats the machine, versions and command as a Markdown list.

    Args:
      here: The machine, from `machine()`.
      versions: Versions of libraries.
      threads: Number of threads used; default: the number of cores.
    """
    threads = threads or int(here["cores"])
    libraries = {"python": here["python"], **versions}
    return "\n".join(
        [
            f"- {here['cpu']}, {here['cores']} cores, {threads} threads, "
            f"{here['system']}, load before: {here['load']:.1f}",
            f"- {', '.join(f'{name} {v}' for name, v in libraries.items())}",
            f"- `{command()}`",
        ]
    )


def milliseconds(seconds: Sequence[float]) -> str:
    """Formats times as "median (min)" in milliseconds."""
    middle, best = statistics.median(seconds), min(seconds)
    return f"{1e3 * middle:.0f} ({1e3 * best:.0f})"


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> str:
    """Formats the median and the range of pairwise ratios."""
    values = [
        over / under
        for over, under in zip(numerators, denominators, strict=True)
    ]
    middle = statistics.median(values)
    return f"{middle:.2f} ({min(values):.2f}-{max(values):.2f})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table; all columns but the first are right-aligned."""
    rule = ["---", *["--:"] * (len(header) - 1)]
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cpu_field(name):
    """Returns a field of /proc/cpuinfo for the first core, or ""."""
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""
