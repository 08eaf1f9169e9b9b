"""`ablate`: runs ablation studies and reports their results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from albert_tf.ablation.chronicles import Pair
from albert_tf.ablation.config import AblationConfig
from albert_tf.ablation.data import (
    StudyData,
    check_documents,
    choose_vocab_size,
    documents_of,
)
from albert_tf.ablation.folder_studies import KEY, add_studies, results_of
from albert_tf.ablation.report import Ablation
from albert_tf.ablation.runner import Downstream, Runner
from albert_tf.ablation.stages import check_stages
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import Study
from albert_tf.ablation.verdicts import import_scipy_stats
from albert_tf.analysis.figures import import_pyplot
from albert_tf.errors import InputError
from albert_tf.files import check_not_input, local_path, split_patterns
from albert_tf.finetuning.registry import with_settings
from albert_tf.finetuning.text_classification.examples import (
    text_task_config,
    text_task_from_columns,
)
from albert_tf.training.run_folder import open_run_folder

ALL = "all"


def find_studies(studies: str | Study | Sequence[str | Study]) -> list[Study]:
    """Looks up studies by name, number of the paper's table, or "all"."""
    by_number = {study.table: study for study in STUDIES.values()}
    by_number |= {"13": by_number["12"]}
    del by_number[""]
    found: dict[str, Study] = {}
    for given in [studies] if isinstance(studies, str | Study) else studies:
        if given == ALL:
            named = [*STUDIES.values()]
        elif isinstance(given, Study):
            named = [given]
        elif study := STUDIES.get(given) or by_number.get(given):
            named = [study]
        else:
            raise InputError(
                f"study={given!r} must be one of {', '.join(STUDIES)}, the "
                f"number of a table ({', '.join(sorted(by_number, key=int))}) "
                f"or {ALL}"
            )
        for study in named:
            if found.setdefault(study.name, study) != study:
                raise InputError(f"two studies are named {study.name!r}")
    if not found:
        raise InputError("name at least one study, or all")
    return list(found.values())


def ablate(
    studies: str | Study | Sequence[str | Study], config: AblationConfig
) -> Ablation:
    """Runs ablation studies, the paper's or your own.

    The folder `config.output` holds text, vocabulary, records, runs, `scores/`
    of each finished run, and the report: `report.md`, `report.json` and a plot
    for each study that was ever run in the folder, in the order in which they
    were first run. Runs that several studies have in common are trained once.
    An interrupted call resumes where it stopped, with the same scores. (With
    another `num_workers`, operations have other numbers of threads and round
    differently.)

    Args:
      studies: Names of the paper's studies (`"sharing"`), numbers of its tables
        (`"4"`), `"all"`, a `Study` of your own, or a sequence of these.
      config: Settings of all studies.

    Returns:
      The results in the report, with `table()`, `save(folder)` and `studies`.
      They include those of earlier calls with the folder, since all claims of
      a report are corrected as one family. Earlier studies that are not
      finished are left out with a warning.

    Raises:
      InputError: if a study, a model or an input file is invalid, or the folder
        holds studies with other settings. Nothing has been trained then.
    """
    found = find_studies(studies)
    # The report needs them: better missed now than after the training.
    import_scipy_stats()
    import_pyplot()
    config = choose_vocab_size(config)
    if config.input is not None:
        check_documents(documents_of(config))  # while nothing is written yet
    for study in found:
        for row in study.rows:
            check_stages(row, config.scale_settings)
    folder = local_path(config.output)
    check_not_input(folder, config.input_files())
    downstream = _given_task(config)
    with open_run_folder(
        folder, config.settings(), may_change=(KEY,)
    ) as record:
        add_studies(record, found)
        record.claim()
        data = StudyData(config, folder)
        data.prepare(
            sorted({x for study in found for x in study.sentence_orders})
        )
        if downstream is None and data.has_pairs:
            downstream = _task_of_pairs(data)
        runner = Runner(config, folder, data, downstream)
        runner.train(found)
        results = results_of(record, runner, found)
        ablation = Ablation(config.scale, config.describe(), results)
        ablation.save(folder)
    return ablation


def _given_task(config: AblationConfig) -> Downstream | None:
    """Returns the task of `train` and `dev`, None if they are not given."""
    if config.train is None or config.dev is None:
        return None
    columns = {"text": config.text_column, "label": config.label_column}
    if config.pair_column is not None:
        columns["pair"] = config.pair_column
    train, dev = split_patterns(config.train), split_patterns(config.dev)
    return _downstream(config, train, dev, columns, all_studies=True)


def _task_of_pairs(data: StudyData) -> Downstream:
    train, dev = data.pair_tables()
    columns = {name: name for name in Pair._fields}
    return _downstream(data.config, [train], [dev], columns, all_studies=False)


def _downstream(
    config: AblationConfig,
    train: Sequence[str | os.PathLike[str]],
    dev: Sequence[str | os.PathLike[str]],
    columns: Mapping[str, str],
    *,
    all_studies: bool,
) -> Downstream:
    task = text_task_config(text_task_from_columns(train, columns))
    length = config.scale_settings.max_seq_length
    return Downstream(
        with_settings(task, {"max_seq_length": length}), train, dev, all_studies
    )
