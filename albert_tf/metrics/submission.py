"""Predictions for a test set, as GLUE's site takes them."""

from __future__ import annotations

import collections
import os
import pathlib
from collections.abc import Iterable, Sequence

from albert_tf.errors import InputError


def write_submission(
    path: str | os.PathLike[str],
    ids: Iterable[str],
    predictions: Iterable[int | float],
    labels: Sequence[str] | None = None,
) -> int:
    """Writes the predictions for one test file.

    The site wants a zip file of all tasks' files, each with its name
    (gluebenchmark.com, FAQ): a header `index<TAB>prediction`, then a line for
    each example in the order of the test file.

    Args:
      path: the file to write, such as `MNLI-mm.tsv`; its folder must exist. It
        appears when it is complete.
      ids: what the test file has in its column `index`.
      predictions: class numbers, or numbers where `labels` is None; written
        with six decimals then.
      labels: what the site calls the classes.

    Returns:
      The number of predictions written.

    Raises:
      InputError: as many ids as predictions are not there; an id is there
        twice; a class has no label; or the file cannot be written.
    """
    path = pathlib.Path(path)
    ids, predictions = list(ids), list(predictions)
    if len(ids) != len(predictions):
        raise InputError(
            f"{path}: {len(predictions)} predictions for {len(ids)} examples; "
            "predict every example of the test file once"
        )
    twice = [i for i, count in collections.Counter(ids).items() if count > 1]
    if twice:
        raise InputError(
            f"{path}: there are two predictions for index {twice[0]!r}; "
            "predict every example of the test file once"
        )
    lines = [
        f"{i}\t{_written(prediction, labels, path)}\n"
        for i, prediction in zip(ids, predictions, strict=True)
    ]
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            file.write("index\tprediction\n")
            file.writelines(lines)
        os.replace(partial, path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}"
        ) from None
    return len(lines)


def _written(
    prediction: int | float, labels: Sequence[str] | None, path: pathlib.Path
) -> str:
    if labels is None:
        return f"{prediction:.6f}"
    if not 0 <= prediction < len(labels):
        raise InputError(
            f"{path}: class {prediction} has no label; there are "
            f"{len(labels)}: {', '.join(labels)}"
        )
    return labels[int(prediction)]
