"""Predict with fine-tuned models: labels, numbers, options, answers, entities.

Reads --input, --text, --question or, without any of them, lines of standard
input. Several models are an ensemble.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from absl import flags

from albert_tf.cli import source_flags
from albert_tf.cli.new_file import new_file, new_output_folder
from albert_tf.cli.quiet_import import import_tensorflow
from albert_tf.data.examples.bad_examples import POLICIES
from albert_tf.errors import InputError
from albert_tf.path_patterns import split_patterns

if TYPE_CHECKING:
    from albert_tf.data.examples.bad_examples import BadExamples
    from albert_tf.tasks.finetuning.description import TaskDescription
    from albert_tf.tasks.finetuning.kinds.base import TaskKind
    from albert_tf.tasks.finetuning.prediction import Predictions, Predictor

flags.adopt_module_key_flags(source_flags)

_MODEL = flags.DEFINE_string(
    "model",
    None,
    "Folder of a fine-tuning run, or of its model; several, separated by "
    "commas, predict together. Required.",
    required=True,
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Examples in the task's format: a table (.tsv, .csv, .jsonl), a SQuAD or "
    "DREAM file, a folder of RACE, a CoNLL file; .gz is read directly.",
)
_TEXT = flags.DEFINE_string("text", None, "A text.")
_PAIR = flags.DEFINE_string("pair", None, "The second text, with --text.")
_QUESTION = flags.DEFINE_string("question", None, "A question on --context.")
_CONTEXT = flags.DEFINE_string("context", None, "What --question is about.")
_COLUMNS = {
    part: flags.DEFINE_string(
        f"{part}_column",
        None,
        f"Column of the {what} in --input, where it is not that of the "
        "training files.",
    )
    for part, what in (
        ("text", "text"),
        ("pair", "second text"),
        ("label", "label"),
        ("id", "ID"),
    )
}
_OUTPUT = flags.DEFINE_string(
    "output", None, "File of predictions; without, standard output."
)
_FORMAT = flags.DEFINE_enum(
    "format",
    None,
    ["tsv", "jsonl"],
    "A table, or JSON lines with all probabilities and answers; the default "
    "is the ending of --output, else tsv.",
)
_SQUAD_OUTPUT = flags.DEFINE_string(
    "squad_output",
    None,
    "Folder for predictions.json, nbest_predictions.json and, of the joint "
    "head, null_odds.json, as the original writes them.",
)
_DATA = flags.DEFINE_string(
    "data",
    None,
    "Folder of GLUE's files, with --glue_submission; see also --from.",
)
_GLUE_SUBMISSION = flags.DEFINE_string(
    "glue_submission",
    None,
    "Folder for the predictions of the task's test sets, as GLUE's site "
    "takes them.",
)
_SCORE = flags.DEFINE_boolean(
    "score",
    False,
    "The input has labels: print the scores, and of several models what they "
    "gain together, on standard error.",
)
_NULL_THRESHOLD = flags.DEFINE_float(
    "null_threshold",
    None,
    "Questions with a higher null score have no answer; the default is the "
    "best one of the development set.",
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Rows of a batch.")
_ON_BAD_EXAMPLE = flags.DEFINE_enum(
    "on_bad_example",
    "stop",
    POLICIES,
    "Examples that cannot be used: stop, or skip, count and list them.",
)


def main() -> None:
    """Predicts what the flags name."""
    _check_flags()
    # Now: help and wrong flags need not wait for TensorFlow.
    import_tensorflow()
    from albert_tf.data.examples.bad_examples import BadExamples
    from albert_tf.tasks.finetuning.prediction import Predictor, description_of

    models = split_patterns(_MODEL.value)
    description = _with_columns(description_of(models))
    bad = BadExamples(_ON_BAD_EXAMPLE.value)
    if _GLUE_SUBMISSION.value is None:
        examples = _examples(description, bad)
    changes = {"null_threshold": _NULL_THRESHOLD.value}
    predictor = Predictor(models, changes, batch_size=_BATCH_SIZE.value)
    if _GLUE_SUBMISSION.value is not None:
        _submit(predictor, description, bad)
    else:
        _predict(predictor, examples)
    if bad.counted:
        print(bad.summary(), file=sys.stderr)


def _check_flags() -> None:
    given = [
        flag
        for flag in (_INPUT, _TEXT, _QUESTION, _GLUE_SUBMISSION)
        if flag.value is not None
    ]
    if len(given) > 1:
        first, second = given[:2]
        raise InputError(f"give either --{first.name} or --{second.name}")
    for flag, other in (
        (_PAIR, _TEXT),
        (_CONTEXT, _QUESTION),
        (_QUESTION, _CONTEXT),
        (_DATA, _GLUE_SUBMISSION),
    ):
        if flag.value is not None and other.value is None:
            raise InputError(f"--{flag.name} goes with --{other.name}")
    submits = _GLUE_SUBMISSION.value is not None
    if source_flags.by_name() and not submits:
        raise InputError(
            f"--from={source_flags.FROM.value} goes with --glue_submission"
        )
    if submits and _DATA.value is None and not source_flags.by_name():
        raise InputError("--glue_submission goes with --data or --from")
    if _SCORE.value and _INPUT.value is None:
        raise InputError("--score goes with --input, which has labels")
    for flag in _COLUMNS.values():
        if flag.value is not None and _INPUT.value is None:
            raise InputError(f"--{flag.name} goes with --input")


def _with_columns(description: TaskDescription) -> TaskDescription:
    """Returns a description with the columns that flags name."""
    columns = {
        part: int(flag.value) if flag.value.isdecimal() else flag.value
        for part, flag in _COLUMNS.items()
        if flag.value is not None
    }
    if not columns:
        return description
    if description.source["reader"] != "texts":
        raise InputError(
            f"--{next(iter(columns))}_column: files of the task "
            f"{description.name} have no columns to choose"
        )
    header = all(isinstance(column, str) for column in columns.values())
    # Other columns than the task's: its own tables, with and without labels.
    own = {"header": header, "unlabelled": {}, "id": None} | columns
    return dataclasses.replace(
        description, source={**description.source, **own}
    )


def _examples(description: TaskDescription, bad: BadExamples) -> Iterable[Any]:
    """Returns the examples that the flags name; they are read later."""
    from albert_tf.tasks.finetuning import inputs, task_files

    if _QUESTION.value is not None:
        return [
            inputs.question_example(
                description, _QUESTION.value, _CONTEXT.value
            )
        ]
    if _TEXT.value is not None and description.kind != "words":
        return [inputs.text_example(description, _TEXT.value, _PAIR.value)]
    if _TEXT.value is not None:
        return inputs.examples_of_lines(description, [_TEXT.value], "--text")
    if _INPUT.value is not None:
        task_files.files_below([_INPUT.value])  # Says so where it is not there.
        return task_files.read_examples(
            description, _INPUT.value, bad=bad, labelled=_SCORE.value
        )
    return inputs.examples_of_lines(description, sys.stdin, "standard input")


def _predict(predictor: Predictor, examples: Iterable[Any]) -> None:
    """Writes predictions, and scores them if that is asked for."""
    from albert_tf.tasks.answers.answer_files import write_answers
    from albert_tf.tasks.finetuning.evaluation import score_predictions

    kept: list[Predictions] = []
    with contextlib.ExitStack() as stack:
        squad_files = _squad_files(predictor.kind, stack)
        windows = _written(predictor, examples, stack)
        if _SCORE.value:
            windows = _kept(windows, kept)
        if squad_files:
            answers = (p.answers for w in windows for p in w.predictions)
            threshold = predictor.kind.null_threshold
            write_answers(answers, threshold=threshold, **squad_files)
        else:
            for _ in windows:
                pass
    if not _SCORE.value:
        return
    scores = score_predictions(predictor.kind, kept)
    for name, score in scores.scores.items():
        print(f"{name:22} {score:>10.4f}", file=sys.stderr)
    if scores.gain is not None:
        print(scores.gain, file=sys.stderr)


def _written(
    predictor: Predictor, examples: Iterable[Any], stack: contextlib.ExitStack
) -> Iterator[Predictions]:
    """Yields predictions that are written to --output, or stdout."""
    from tqdm import tqdm

    from albert_tf.tasks.finetuning.prediction_files import PredictionWriter

    writer = None
    if _OUTPUT.value is not None:
        file = stack.enter_context(new_file(_OUTPUT.value))
        ending = pathlib.Path(_OUTPUT.value).suffix
        form = _FORMAT.value or ("jsonl" if ending == ".jsonl" else "tsv")
        writer = PredictionWriter(file, predictor.kind, form)
    elif _SQUAD_OUTPUT.value is None:
        form = _FORMAT.value or "tsv"
        writer = PredictionWriter(sys.stdout, predictor.kind, form)
    with tqdm(unit=" examples", disable=not sys.stderr.isatty()) as bar:
        for window in predictor.windows(examples):
            if writer:
                writer.write(window.examples, window.predictions)
            yield window
            bar.update(len(window.examples))


def _kept(
    windows: Iterable[Predictions], kept: list[Predictions]
) -> Iterator[Predictions]:
    for window in windows:
        kept.append(window)
        yield window


def _squad_files(
    kind: TaskKind, stack: contextlib.ExitStack
) -> dict[str, TextIO]:
    """Returns the files of --squad_output, opened; none without it."""
    if _SQUAD_OUTPUT.value is None:
        return {}
    if kind.description.kind != "spans":
        raise InputError(
            f"--squad_output: the task {kind.description.name} has no answers "
            "in a context"
        )
    folder = new_output_folder(_SQUAD_OUTPUT.value)
    names = {"predictions": "predictions", "nbest": "nbest_predictions"}
    if kind.description.settings["head"] == "joint":
        names["null_odds"] = "null_odds"
    return {
        key: stack.enter_context(new_file(folder / f"{name}.json"))
        for key, name in names.items()
    }


def _submit(
    predictor: Predictor, description: TaskDescription, bad: BadExamples
) -> None:
    """Writes the file, or files, that GLUE's site wants of a task."""
    from albert_tf.tasks.finetuning.submission import write_submissions

    folder = new_output_folder(_GLUE_SUBMISSION.value)
    for path in write_submissions(
        predictor,
        description,
        folder,
        bad,
        source=source_flags.FROM.value,
        data=_DATA.value,
    ):
        print(f"wrote {path}")
