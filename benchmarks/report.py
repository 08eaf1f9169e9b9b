"""Measurements and the machine they were made on, for people."""

from __future__ import annotations

import os
import pathlib
import platform
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence

# Linux's flags of what decides how fast matrix products are.
_FEATURES = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "VNNI",
    "avx512_bf16": "AVX512-BF16",
    "amx_bf16": "AMX-BF16",
    "amx_int8": "AMX-INT8",
}


def available_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def command() -> str:
    """Returns the command line that started this program."""
    script = pathlib.Path(sys.argv[0])
    return shlex.join(["python", f"benchmarks/{script.name}", *sys.argv[1:]])


def machine() -> dict[str, str | int | float]:
    """Returns processor, cores, system, Python version and present load.

    `load` is the average number of busy processes in the last minute: a number
    far above 0, before the measurement, says that it is worth little.
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
    """Returns the machine (of `machine()`), versions and command as a list.

    Args:
      here: the machine.
      versions: library -> version.
      threads: of what was measured; None for all cores.
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
    """Returns "median (min)" in milliseconds."""
    middle, best = statistics.median(seconds), min(seconds)
    return f"{1e3 * middle:.0f} ({1e3 * best:.0f})"


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> str:
    """Returns the median and the range of the ratios, pair by pair."""
    values = [
        over / under
        for over, under in zip(numerators, denominators, strict=True)
    ]
    middle = statistics.median(values)
    return f"{middle:.2f} ({min(values):.2f}-{max(values):.2f})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table; all columns but the first are numbers."""
    rule = ["---", *["--:"] * (len(header) - 1)]
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cpu_field(name):
    """Returns a field of Linux's description of the first core, or ""."""
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""
