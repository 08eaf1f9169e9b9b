"""Runs of ablation studies: text, vocabulary, records, training and scores."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import signal
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent import futures
from typing import Any

import keras
import tensorflow as tf

from albert_tf.ablation.chronicles import chronicles
from albert_tf.ablation.config import AblationConfig, ScaleSettings
from albert_tf.ablation.report import RowResult, StudyResult
from albert_tf.ablation.study import DOWNSTREAM, NSP, SOP, Study, StudyRow
from albert_tf.analysis.parameters import count_parameters
from albert_tf.analysis.runs import read_runs
from albert_tf.config import AlbertConfig
from albert_tf.demo.corpora import write_default_text
from albert_tf.files import (
    new_file,
    split_patterns,
    write_atomically,
)
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import TaskFiles
from albert_tf.finetuning.task_config import TaskConfig
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
from albert_tf.worker_pool import worker_pool

_CHECKPOINTS_PER_RUN = 8
_MAX_EVAL_STEPS = 100
_MASKED_LM_PROB = 0.15


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A row of a study, trained with one seed."""

    study: Study
    row: StudyRow
    seed: int

    def __str__(self) -> str:
        return f"{self.study.name}: {self.row.name}, seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class Runner:
    """Prepares, trains and scores the runs in one folder.

    Attributes:
      config: Settings of the studies.
      folder: Folder for all data, runs and scores.
      task: Task to fine-tune each pretrained model on, if any.
    """

    config: AblationConfig
    folder: pathlib.Path
    task: TaskConfig | None

    @property
    def scale(self) -> ScaleSettings:
        """The scale of the studies."""
        return self.config.scale_settings

    def prepare(self, orders: Collection[SentenceOrder]) -> None:
        """Creates the text, vocabulary and records that do not exist yet.

        Args:
          orders: Sentence orders to create records for.
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
                    max_predictions_per_seq=max(
                        1, round(_MASKED_LM_PROB * length)
                    ),
                    sentence_order=order,
                    pack=False,  # An equal number of pairs in each batch.
                    heldout_fraction=0.05,
                )
            )

    def _documents(self) -> Iterator[list[str]]:
        """Yields documents up to the scale's amount of text."""
        remaining = self.scale.text_megabytes * 1e6
        for document in self._all_documents():
            yield document
            remaining -= sum(len(sentence) + 1 for sentence in document)
            if remaining <= 0:
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

    def train(self, studies: Iterable[Study]) -> None:
        """Trains the runs without scores, `num_workers` in parallel.

        Runs that start from another run's weights wait for it.
        """
        missing = {
            self._name(run): run
            for study in studies
            for run in self._runs(study)
            if not self._score_file(run).exists()
        }
        num_workers = min(self.config.num_workers, len(missing))
        if num_workers < 2:
            for run in missing.values():
                print(f"== {run}", flush=True)
                self.train_run(run)
            return
        cores = max(1, (os.cpu_count() or 1) // num_workers)
        log = os.fspath(self.folder / "workers.log")
        with worker_pool(num_workers, _limit_threads, cores, log=log) as pool:
            running: dict[futures.Future, str] = {}
            while missing or running:
                unfinished = {*missing, *running.values()}
                ready = [
                    name
                    for name, run in missing.items()
                    if self._parent_name(run) not in unfinished
                ]
                # Submits only what starts immediately: the pool finishes its
                # queue even after an interrupt.
                for name in ready[: num_workers - len(running)]:
                    run = missing.pop(name)
                    print(f"== {run}", flush=True)
                    running[pool.submit(_train_in_worker, self, run)] = name
                done, _ = futures.wait(
                    running, return_when=futures.FIRST_COMPLETED
                )
                for future in done:
                    del running[future]
                    future.result()

    def result(self, study: Study) -> StudyResult:
        """Returns the scores of a study whose runs are finished."""
        scores = {
            run: read_json(self._score_file(run)) for run in self._runs(study)
        }
        if study.cross_evaluated:
            self._cross_evaluate(scores)
        rows = []
        for row in study.rows:
            own = [x for run, x in scores.items() if run.row is row]
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

    def _runs(self, study: Study) -> list[Run]:
        return [
            Run(study, row, seed)
            for row in study.rows
            for seed in range(self.config.num_seeds)
        ]

    def _cross_evaluate(self, scores: Mapping[Run, dict[str, Any]]) -> None:
        """Adds the accuracy of each model on both SOP and NSP pairs.

        All models are scored in one call, which traces their graph once.
        """
        file = self.folder / "scores" / "sentence_pairs.json"
        known = read_json(file) if file.exists() else {}
        names = {run: self._name(run) for run in scores}
        missing = [name for name in names.values() if name not in known]
        if missing:
            checkpoints = [find_checkpoint(self._folder(x)) for x in missing]
            known |= {name: {} for name in missing}
            for score, order in ((SOP, "sop"), (NSP, "nsp")):
                heldout = open_records(self._data(order), "heldout")
                evaluations = evaluate_checkpoints(
                    checkpoints, heldout, max_steps=_MAX_EVAL_STEPS
                )
                for name, (_, scored) in zip(missing, evaluations, strict=True):
                    known[name][score] = scored[score]
            write_atomically(file, json.dumps(known, indent=2) + "\n")
        for run, name in names.items():
            scores[run]["scores"] |= known[name]

    def _data(self, order: str) -> pathlib.Path:
        """Returns the folder of the records of a sentence order."""
        return self.folder / f"data-{order}"

    def _folder(self, name: str) -> str:
        return os.fspath(self.folder / "runs" / name)

    def _score_file(self, run: Run) -> pathlib.Path:
        return self.folder / "scores" / f"{self._name(run)}.json"

    def _model(self, row: StudyRow) -> AlbertConfig:
        return row.architecture(self.scale.base)

    def _steps(self, study: Study, row: StudyRow) -> int:
        steps = self.scale.num_train_steps * study.length
        if study.equal_compute:
            length = self.scale.max_seq_length
            first, own = (
                pretraining_step_flops(
                    self._model(each), length, round(_MASKED_LM_PROB * length)
                )
                for each in (study.rows[0], row)
            )
            steps *= first / own
        return max(1, round(steps))

    def _name(self, run: Run) -> str:
        """Returns the name of a run's folder, equal for equal runs."""
        base = self.scale.base.to_dict()
        model = self._model(run.row).to_dict()
        changes = [f"{x}={y}" for x, y in model.items() if y != base[x]]
        if parent := self._parent_name(run):
            changes.append(f"from-{zlib.crc32(parent.encode()):08x}")
        return "-".join(
            [
                *(changes or ["base"]),
                run.row.sentence_order,
                f"{self._steps(run.study, run.row)}-steps",
                f"seed-{run.seed}",
            ]
        )

    def _parent_name(self, run: Run) -> str | None:
        """Returns the name of the run whose weights a run starts from."""
        if run.row.init_from is None:
            return None
        rows = {row.name: row for row in run.study.rows}
        return self._name(dataclasses.replace(run, row=rows[run.row.init_from]))

    def train_run(self, run: Run) -> None:
        """Trains or resumes a run, and writes its scores and its curve."""
        keras.utils.clear_session()  # Frees the graphs of earlier runs.
        name = self._name(run)
        scores = self._pretrain(run, self._folder(name))
        if self.task:
            scores[DOWNSTREAM] = self._finetune(name, run.seed)
        (log,) = read_runs([self._folder(name)])
        scores["seconds"] = log.lines[-1].seconds
        result = {
            "scores": scores,
            "curve": log.points("eval", "mlm_accuracy", "seconds"),
        }
        file = self._score_file(run)
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, json.dumps(result, indent=2) + "\n")

    def _pretrain(self, run: Run, output: str) -> dict[str, float]:
        """Pretrains a model and returns its final scores on held-out text."""
        row = run.row
        steps = self._steps(run.study, row)
        parent = self._parent_name(run)
        period = max(1, steps // _CHECKPOINTS_PER_RUN)
        result = pretrain(
            PretrainConfig(
                input=os.fspath(self._data(row.sentence_order)),
                output=output,
                model=self._model(row),
                init_from=parent and self._folder(parent),
                num_train_steps=steps,
                train_batch_size=self.scale.train_batch_size,
                optimizer="adamw",
                learning_rate=row.learning_rate(
                    self.scale.learning_rate, self.scale.base
                ),
                num_warmup_steps=steps // 10,
                schedule="linear",
                seed=run.seed,
                # Only plots of studies with equal computation have curves.
                eval_steps=period if run.study.equal_compute else steps,
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

    def _finetune(self, name: str, seed: int) -> float:
        """Fine-tunes a classifier from a run and returns its accuracy."""
        assert self.task is not None
        result = finetune(
            FinetuneConfig(
                init_from=self._folder(name),
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


def _limit_threads(cores: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(cores)


def _train_in_worker(runner: Runner, run: Run) -> None:
    """Trains a run in a process of the pool; Ctrl-C saves and stops it."""
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runner.train_run(run)
    finally:
        signal.signal(signal.SIGINT, ignored)
