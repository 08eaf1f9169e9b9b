"""The runs of the studies: text, vocabulary, records, training and scores."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras

from albert_tf.ablation.chronicles import chronicles
from albert_tf.ablation.config import AblationConfig, ScaleSettings
from albert_tf.ablation.report import Ablation, RowResult, StudyResult
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import DOWNSTREAM, NSP, SOP, Study, StudyRow
from albert_tf.analysis.parameters import count_parameters
from albert_tf.analysis.runs import read_runs
from albert_tf.config import AlbertConfig
from albert_tf.demo.corpora import write_default_text
from albert_tf.errors import InputError
from albert_tf.files import (
    check_not_input,
    local_path,
    new_file,
    split_patterns,
    write_atomically,
)
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import TaskFiles
from albert_tf.finetuning.registry import with_settings
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.text_classification.examples import (
    text_task_from_columns,
)
from albert_tf.finetuning.text_classification.task import text_task_config
from albert_tf.finetuning.train import finetune
from albert_tf.folders import new_folder
from albert_tf.input_files import read_json
from albert_tf.models.flops import pretraining_step_flops
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.create_data import create_pretraining_data
from albert_tf.pretraining.data_config import (
    PretrainingDataConfig,
    SentenceOrder,
)
from albert_tf.pretraining.documents import read_corpus, read_documents
from albert_tf.pretraining.evaluate import evaluate_checkpoints
from albert_tf.pretraining.records import open_records
from albert_tf.pretraining.train import pretrain
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary
from albert_tf.training.checkpoint_files import find_checkpoint
from albert_tf.training.run_folder import open_run_folder

ALL = "all"
_CHECKPOINTS = 8  # of a run
_MAX_EVAL_STEPS = 100
_MASKED = 0.15


def find_studies(studies: str | Study | Sequence[str | Study]) -> list[Study]:
    """Returns studies, of which the paper's may be given by name or table.

    Args:
      studies: such as "sharing", "4", "all" or a `Study`; one or several.

    Raises:
      InputError: there is no such study, or two have one name.
    """
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
                f"table={given!r} must be one of {', '.join(STUDIES)}, the "
                f"number of a table ({', '.join(sorted(by_number, key=int))}) "
                f"or {ALL}"
            )
        for study in named:
            if found.setdefault(study.name, study) != study:
                raise InputError(f"two studies are called {study.name!r}")
    if not found:
        raise InputError("table: name at least one study, or all")
    return list(found.values())


def ablate(
    studies: str | Study | Sequence[str | Study], config: AblationConfig
) -> Ablation:
    """Repeats studies of the paper, makes others, or goes on with them.

    Everything is in the folder `config.output`: text, vocabulary, records, the
    runs, `scores/` of each finished run, and the report of these studies:
    `report.md`, `report.json` and a picture for each. A run that two studies
    have in common is made once. Killed, and started again with the same
    settings, it goes on with the run it was at, to the same scores.

    Args:
      studies: names of the paper's studies (`sharing`), numbers of its tables
        (`4`), `all`, or studies of your own; one or several.
      config: the settings.

    Raises:
      InputError: text or tables cannot be used, a study or one of its models
        is not possible, or the folder holds studies with other settings.
        Nothing was trained then.
    """
    found = find_studies(studies)
    for study in found:
        for row in study.rows:
            row.architecture(config.scale_settings.base)
    folder = local_path(config.output)
    sources = config.given_files()
    check_not_input(folder, sources)
    task = _downstream_task(config)
    with open_run_folder(folder, config.settings()) as record:
        record.claim()
        runner = _Runner(config, folder, task)
        runner.prepare(
            sorted({x for study in found for x in study.sentence_orders})
        )
        results = [runner.run(study) for study in found]
        ablation = Ablation(config.scale, config.describe(), tuple(results))
        ablation.save(folder)
    return ablation


def _downstream_task(config: AblationConfig) -> TaskConfig | None:
    if config.train is None:
        return None
    columns = {"text": "text", "label": "label"}
    task = text_task_from_columns(split_patterns(config.train), columns)
    length = config.scale_settings.max_seq_length
    return with_settings(text_task_config(task), {"max_seq_length": length})


@dataclasses.dataclass(frozen=True)
class _Runner:
    """The runs in one folder."""

    config: AblationConfig
    folder: pathlib.Path
    task: TaskConfig | None

    @property
    def scale(self) -> ScaleSettings:
        return self.config.scale_settings

    def prepare(self, orders: Collection[SentenceOrder]) -> None:
        """Makes the text, the vocabulary and the records that are missing.

        Args:
          orders: what records are needed for.
        """
        text = self.folder / "text.txt"
        if not text.exists():
            with new_file(text) as file:
                for document in self._documents():
                    file.write("\n".join(document) + "\n\n")
        vocabulary = self.folder / "vocabulary"
        if not vocabulary.exists():
            with new_folder(vocabulary) as new:
                train_vocabulary(
                    (x for document in read_documents(text) for x in document),
                    new / "spiece",
                    VocabularyConfig(
                        vocab_size=self.scale.vocab_size,
                        model_type=self.scale.model_type,
                    ),
                )
        length = self.scale.max_seq_length
        tokenizer = AlbertTokenizer.from_file(vocabulary / "spiece.model")
        for order in orders:
            if self._data(order).exists():
                continue
            create_pretraining_data(
                PretrainingDataConfig(
                    input=[os.fspath(text)],
                    output=self._data(order),
                    tokenizer=tokenizer,
                    max_seq_length=length,
                    max_predictions_per_seq=max(1, round(_MASKED * length)),
                    sentence_order=order,
                    heldout_fraction=0.05,
                )
            )

    def _documents(self) -> Iterator[list[str]]:
        """Yields documents up to the amount of text of the scale."""
        left = self.scale.text_megabytes * 1e6
        for document in self._all_documents():
            yield document
            left -= sum(len(sentence) + 1 for sentence in document)
            if left <= 0:
                return

    def _all_documents(self) -> Iterable[list[str]]:
        if self.config.input is not None:
            return read_corpus(self.config.text_files(), self.config)
        if self.scale.default_text == "chronicles":
            return chronicles()
        folder = self.folder / "default_text"
        folder.mkdir(exist_ok=True)
        files = write_default_text(folder)
        return (document for file in files for document in read_documents(file))

    def run(self, study: Study) -> StudyResult:
        """Makes the runs of a study that are not finished."""
        scores = {
            (row.name, seed): self._scores(study, row, seed)
            for row in study.rows
            for seed in range(self.config.num_seeds)
        }
        if study.cross_evaluated:
            self._cross_evaluate(study, scores)
        rows = []
        for row in study.rows:
            own = [x for (name, _), x in scores.items() if name == row.name]
            rows.append(
                RowResult(
                    row.name,
                    count_parameters(self._model(row)).encoder,
                    self._steps(study, row),
                    tuple(x["scores"] for x in own),
                    tuple(x["curve"] for x in own),
                )
            )
        return StudyResult(study, tuple(rows))

    def _cross_evaluate(
        self, study: Study, scores: Mapping[tuple[str, int], dict[str, Any]]
    ) -> None:
        """Adds how well each model does on the pairs of both tasks.

        Runs without SOP were not scored on any pairs. All models are scored in
        one go, which traces their graph once.
        """
        file = self.folder / "scores" / "sentence_pairs.json"
        known = read_json(file) if file.exists() else {}
        rows = {row.name: row for row in study.rows}
        names = {
            (name, seed): self._name(study, rows[name], seed)
            for name, seed in scores
        }
        missing = [name for name in names.values() if name not in known]
        if missing:
            checkpoints = [find_checkpoint(self._run(x)) for x in missing]
            known |= {name: {} for name in missing}
            for score, order in ((SOP, "sop"), (NSP, "nsp")):
                heldout = open_records(self._data(order), "heldout")
                evaluations = evaluate_checkpoints(
                    checkpoints, heldout, max_steps=_MAX_EVAL_STEPS
                )
                for name, (_, scored) in zip(missing, evaluations, strict=True):
                    known[name][score] = scored[score]
            write_atomically(file, json.dumps(known, indent=2) + "\n")
        for key, name in names.items():
            scores[key]["scores"] |= known[name]

    def _data(self, order: str) -> pathlib.Path:
        """Returns the records whose pairs are made for a sentence order."""
        return self.folder / f"data-{order}"

    def _run(self, name: str) -> str:
        return os.fspath(self.folder / "runs" / name)

    def _model(self, row: StudyRow) -> AlbertConfig:
        return row.architecture(self.scale.base)

    def _steps(self, study: Study, row: StudyRow) -> int:
        steps = self.scale.num_train_steps * study.length
        if study.equal_compute:
            length = self.scale.max_seq_length
            first, own = (
                pretraining_step_flops(
                    self._model(each), length, round(_MASKED * length)
                )
                for each in (study.rows[0], row)
            )
            steps *= first / own
        return max(1, round(steps))

    def _name(self, study: Study, row: StudyRow, seed: int) -> str:
        """Returns the folder of a run: equal runs have equal names."""
        base, model = self.scale.base.to_dict(), self._model(row).to_dict()
        changes = [f"{x}={y}" for x, y in model.items() if y != base[x]]
        if before := self._run_before(study, row, seed):
            changes.append(f"from-{zlib.crc32(before.encode()):08x}")
        return "-".join(
            [
                *(changes or ["base"]),
                row.sentence_order,
                f"{self._steps(study, row)}-steps",
                f"seed-{seed}",
            ]
        )

    def _run_before(self, study: Study, row: StudyRow, seed: int) -> str | None:
        """Returns the folder of the run whose weights a run begins with."""
        if row.init_from is None:
            return None
        (before,) = (x for x in study.rows if x.name == row.init_from)
        return self._name(study, before, seed)

    def _scores(self, study: Study, row: StudyRow, seed: int) -> dict[str, Any]:
        """Returns the scores and the curve of a run."""
        name = self._name(study, row, seed)
        file = self.folder / "scores" / f"{name}.json"
        if file.exists():
            return read_json(file)
        print(f"== {study.name}: {row.name}, seed {seed}", flush=True)
        # Graphs of earlier runs are not needed any more.
        keras.utils.clear_session()
        run = self._run(name)
        scores = self._pretrain(study, row, seed, run)
        if self.task:
            scores[DOWNSTREAM] = self._finetune(run, name, seed)
        (log,) = read_runs([run])
        scores["seconds"] = log.lines[-1].seconds
        result = {
            "scores": scores,
            "curve": log.points("eval", "mlm_accuracy", "seconds"),
        }
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, json.dumps(result, indent=2) + "\n")
        return result

    def _pretrain(
        self, study: Study, row: StudyRow, seed: int, output: str
    ) -> dict[str, float]:
        """Makes or resumes a run; returns its last scores on held-out text."""
        steps = self._steps(study, row)
        before = self._run_before(study, row, seed)
        period = max(1, steps // _CHECKPOINTS)
        result = pretrain(
            PretrainConfig(
                input=os.fspath(self._data(row.sentence_order)),
                output=output,
                model=self._model(row),
                init_from=before and self._run(before),
                num_train_steps=steps,
                train_batch_size=self.scale.train_batch_size,
                optimizer="adamw",
                learning_rate=row.learning_rate(
                    self.scale.learning_rate, self.scale.base
                ),
                num_warmup_steps=steps // 10,
                schedule="linear",
                seed=seed,
                # Only the picture of equal computation has curves.
                eval_steps=period if study.equal_compute else steps,
                log_steps=period,
                save_checkpoints_steps=period,
                keep_checkpoint_max=1,
                max_eval_steps=_MAX_EVAL_STEPS,
                log_update_norms=False,
            )
        )
        if result.interrupted:
            raise KeyboardInterrupt
        return {
            name: math.nan if value is None else value
            for name, value in result.evaluations[steps].items()
        }

    def _finetune(self, run: str, name: str, seed: int) -> float:
        """Returns the accuracy of a classifier that begins with a run."""
        assert self.task is not None
        result = finetune(
            FinetuneConfig(
                init_from=run,
                output=self.folder / "classifiers" / name,
                seed=seed,
                learning_rate=2e-4,
            ),
            self.task,
            TaskFiles(
                train=split_patterns(self.config.train or ()),
                dev=split_patterns(self.config.dev or ()),
            ),
        )
        if result.training.interrupted:
            raise KeyboardInterrupt
        return result.scores["accuracy"]
