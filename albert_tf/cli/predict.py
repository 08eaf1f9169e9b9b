r"""Predict with fine-tuned models: labels, numbers, options, answers, entities.

Reads --input, --text, --question or, by default, lines of standard input, each
a text, or two with a tab between them if the task has pairs. Blank lines are
empty texts. Several models form an ensemble.

Examples:
  echo "A good story." | albert predict --model=reviews
  albert predict --model=answers --question="Who came?" \
      --context="A reader came."
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf.cli.flags import CommandFlags, require_flags
from albert_tf.cli.text_lines import (
    STANDARD_INPUT,
    STDIN,
    ResultsFlags,
    standard_input_lines,
)
from albert_tf.errors import InputError
from albert_tf.files import (
    Path,
    check_not_input,
    new_file,
    output_folder,
    split_patterns,
)
from albert_tf.finetuning import data
from albert_tf.finetuning.config import SourceConfig, column
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.question_answering.task import QuestionAnswering
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.table_writing import TableWriter, output_format
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import described, setting

if TYPE_CHECKING:
    from albert_tf.finetuning.predictor import Predictions, Predictor
    from albert_tf.finetuning.question_answering.answers import AnswerFiles
    from albert_tf.finetuning.task_config import TaskConfig
    from albert_tf.finetuning.task_type import TaskType


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictFlags(ResultsFlags, SourceConfig):
    """Flags for models, inputs and outputs."""

    model: str = dataclasses.field(
        metadata=described(
            "Folder of a fine-tuning run or of its model. Several, separated "
            "by commas, form an ensemble. Required."
        )
    )
    input: str | None = setting(
        None,
        "Examples in the format of the task: a table (.tsv, .csv, .jsonl), a "
        "SQuAD, DREAM or CoNLL file, a RACE folder. May be compressed (.gz).",
    )
    text: str | None = setting(None, "A text.")
    pair: str | None = setting(None, "Second text of a pair, with --text.")
    question: str | None = setting(None, "A question about --context.")
    context: str | None = setting(None, "Context of --question.")
    text_column: str | int | None = setting(
        None,
        "Column of the text in --input, if it differs from the training files.",
        parse=column,
    )
    pair_column: str | int | None = setting(
        None, "Column of the second text.", parse=column
    )
    label_column: str | int | None = setting(
        None, "Column of the label.", parse=column
    )
    id_column: str | int = setting(
        "",
        "Column of the ID. Default: that of the training files, or the number "
        "of the row if --input lacks it.",
        parse=column,
    )
    header: bool | None = setting(
        None,
        "If columns are given, whether --input begins with their names. "
        "Default: true if a column that is read has a name.",
    )
    squad_output: str | None = setting(
        None,
        "Folder for predictions.json, nbest_predictions.json and, with the "
        "joint head, null_odds.json, in the format of Google's code.",
    )
    glue_submission: str | None = setting(
        None,
        "Folder for the predictions on the task's test sets, in the format of "
        "the GLUE leaderboard; with --data or --from.",
    )
    score: bool = setting(
        False,
        "Print the scores on a labelled --input, and the gain of an ensemble, "
        "to standard error.",
    )
    metrics: Sequence[str] | None = setting(
        None, "With --score: the metrics, instead of those of the task."
    )
    null_threshold: float | None = setting(
        None,
        "Questions with a higher null score are unanswerable. Default: the "
        "best threshold on the development set; without one, 0 (a probability "
        "of one half) if the task has unanswerable questions.",
    )

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns given by flags, by role."""
        roles = ("text", "pair", "label", "id")
        columns = {x: getattr(self, f"{x}_column") for x in roles}
        return {role: x for role, x in columns.items() if x not in (None, "")}

    @property
    def texts(self) -> dict[str, str]:
        """The texts given by flags, by flag."""
        names = ("text", "pair", "question", "context")
        texts = {name: getattr(self, name) for name in names}
        return {name: x for name, x in texts.items() if x is not None}


CONFIGS = (PredictFlags,)


def main(flags: CommandFlags) -> None:
    """Writes predictions, a submission or scores."""
    flags.choose("input", "text", "question", "glue_submission")
    given = flags.build(PredictFlags)
    _check_flags(given)
    models = split_patterns(given.model)
    if given.output is not None:
        check_not_input(given.output, _inputs(given, models))
        output_format(given.output, given.format, "tsv")
    import_tensorflow()
    given.load_task_module()
    from albert_tf.finetuning.model_folder import open_model_folders
    from albert_tf.finetuning.predictor import Predictor

    folders = open_model_folders(models)
    task_config = _with_columns(
        next(iter(folders.values())).task_config, given.columns, given.header
    )
    bad = BadExamples(given.on_bad_example)
    predictor = functools.partial(
        Predictor,
        models,
        {"null_threshold": given.null_threshold},
        batch_size=given.eval_batch_size,
        runtime=given.runtime,
    )
    if given.glue_submission is None:
        # The inputs are read before the models are loaded.
        examples = _examples(make_task_type(task_config), given, bad)
        _predict(predictor(), examples, given)
    else:
        _submit(predictor(), task_config, given, bad)
    if bad.counted:
        print(bad.summary(), file=sys.stderr)


def _check_flags(given: PredictFlags) -> None:
    require_flags(
        {
            "pair": ["text"],
            "context": ["question"],
            "question": ["context"],
            "data": ["glue_submission"],
            **dict.fromkeys((f"{x}_column" for x in given.columns), ["input"]),
        },
        given,
    )
    submits = given.glue_submission is not None
    if given.from_library and not submits:
        raise InputError(f"--from={given.source} requires --glue_submission")
    if submits and given.data is None and not given.from_library:
        raise InputError("--glue_submission requires --data or --from")
    for name in ("output", "format", "squad_output"):
        if submits and getattr(given, name) is not None:
            raise InputError(
                f"--{name} is not supported with --glue_submission, whose "
                "files have a format of their own"
            )
    if given.metrics and not given.score:
        raise InputError("--metrics requires --score")
    if given.score and given.input is None:
        raise InputError("--score requires --input, which has labels")


def _inputs(given: PredictFlags, models: Sequence[str]) -> list[Path]:
    """Returns the files and folders that the command reads."""
    inputs: list[Path] = [
        *models,
        *(x for x in (given.input, given.data) if x is not None),
    ]
    if given.input is None and not given.texts and os.path.exists(STDIN):
        inputs.append(STDIN)
    return inputs


def _with_columns(
    task_config: TaskConfig, columns: dict[str, str | int], header: bool | None
) -> TaskConfig:
    """Returns the task with the columns given by flags."""
    if not columns:
        if header is not None:
            raise InputError(
                "--header requires a column, such as --text_column"
            )
        return task_config
    if task_config.source.get("reader") != "texts":
        raise InputError(
            f"--{next(iter(columns))}_column: files of the task "
            f"{task_config.name} have no columns to choose"
        )
    source = task_config.source
    if "pair" in columns and source.get("pair") is None:
        raise InputError(
            f"--pair_column: the task {task_config.name} has one text, not two"
        )
    own = {x: source.get(x) for x in {"text", "pair"} - columns.keys()}
    own = {name: x for name, x in own.items() if x is not None}
    if header is None:
        header = bool(own and source.get("header"))
        read = (own | columns).values()
        header = header or any(isinstance(column, str) for column in read)
    # They apply to files with labels and without. An ID that is given must
    # exist.
    ids = {"id": source.get("unlabelled", {}).get("id")} | columns
    unlabelled = {"id": ids["id"]} if ids["id"] is not None else {}
    changes = {"header": header, "unlabelled": unlabelled} | columns
    return dataclasses.replace(task_config, source={**source, **changes})


def _examples(
    task_type: TaskType, given: PredictFlags, bad: BadExamples
) -> Iterable[Any]:
    """Returns the examples, which are read lazily."""
    from albert_tf.finetuning.example_texts import (
        examples_from_lines,
        make_example,
    )

    if given.texts:
        try:
            return [make_example(task_type, given.texts, "0")]
        except InputError as error:
            raise InputError(f"--{next(iter(given.texts))}: {error}") from None
    if given.input is not None:
        data.files_below([given.input])  # Raises if it does not exist.
        return data.read_examples(
            task_type, [given.input], bad=bad, labelled=given.score
        )
    lines = standard_input_lines(bad.report)
    return examples_from_lines(task_type, lines, STANDARD_INPUT, bad)


def _predict(
    predictor: Predictor, examples: Iterable[Any], given: PredictFlags
) -> None:
    """Writes predictions, and scores them with --score."""
    from tqdm import tqdm

    from albert_tf.finetuning.results import score_lines
    from albert_tf.finetuning.scoring import (
        check_scored,
        score_predictions,
        scored_by,
    )

    task_type = predictor.task_type
    metrics: Sequence[str] = ()
    if given.score:
        examples = list(examples)
        metrics = check_scored(task_type, examples, given.metrics)
    kept: list[Predictions] = []
    with contextlib.ExitStack() as stack:
        answers = _answer_files(task_type, given, stack)
        table = None
        form = output_format(given.output, given.format, "tsv")
        if given.output is not None:
            table = TableWriter(
                stack.enter_context(new_file(given.output)), form
            )
        elif given.squad_output is None:
            table = TableWriter(sys.stdout, form)
        bar = stack.enter_context(
            tqdm(unit=" examples", disable=not sys.stderr.isatty())
        )
        for chunk in predictor.chunks(examples):
            if table:
                records = map(
                    task_type.record, chunk.examples, chunk.predictions
                )
                for record in records:
                    table.write_record(record, task_type.layout)
            if answers:
                answers.write([x.answers for x in chunk.predictions])
            if given.score:
                kept.append(chunk)
            bar.update(len(chunk.examples))
    if not given.score:
        return
    scores, gain = score_predictions(
        scored_by(task_type, metrics), kept, as_written=True
    )
    print(*score_lines(scores), sep="\n", file=sys.stderr)
    if gain:
        print(gain, file=sys.stderr)


def _answer_files(
    task_type: TaskType, given: PredictFlags, stack: contextlib.ExitStack
) -> AnswerFiles | None:
    """Opens the files of --squad_output, if given."""
    if given.squad_output is None:
        return None
    from albert_tf.finetuning.question_answering.answers import AnswerFiles

    task_config = task_type.task_config
    if not isinstance(task_type, QuestionAnswering):
        raise InputError(
            f"--squad_output: the task {task_config.name} has no answers in a "
            "context"
        )
    folder = stack.enter_context(output_folder(given.squad_output))
    inputs = _inputs(given, split_patterns(given.model))
    names = ["predictions", "nbest_predictions"]
    if task_config.settings["head"] == "joint":
        names.append("null_odds")
    paths = [folder / f"{name}.json" for name in names]
    for path in paths:
        check_not_input(path, inputs)
    files = [stack.enter_context(new_file(path)) for path in paths]
    return stack.enter_context(AnswerFiles(files, task_type.null_threshold))


def _submit(
    predictor: Predictor,
    task_config: TaskConfig,
    given: PredictFlags,
    bad: BadExamples,
) -> None:
    """Writes the files of a GLUE submission."""
    from albert_tf.finetuning.text_classification.glue_submission import (
        write_submissions,
    )

    assert given.glue_submission is not None
    with output_folder(given.glue_submission) as folder:
        for path in write_submissions(
            predictor,
            task_config,
            folder,
            bad,
            source=given.source,
            data=given.data,
        ):
            print(f"wrote {path}")
