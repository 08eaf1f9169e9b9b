"""Figures: matplotlib without a screen, colours, and writing to a file."""

from __future__ import annotations

import os
from typing import Any

from albert_tf.errors import InputError, import_package

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def import_pyplot() -> Any:
    """Returns pyplot, which draws without a screen.

    Raises:
      InputError: matplotlib is not installed.
    """
    import_package("matplotlib", "pictures").use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_figure(figure: Any, output: str | os.PathLike[str]) -> None:
    """Writes a figure of pyplot, and closes it.

    Args:
      figure: the figure.
      output: the picture to write; its ending says the format.

    Raises:
      InputError: the picture cannot be written there.
    """
    from matplotlib import pyplot

    try:
        figure.savefig(output, dpi=110)
    except (OSError, ValueError) as error:
        raise InputError(f"output {os.fspath(output)}: {error}") from error
    finally:
        pyplot.close(figure)
