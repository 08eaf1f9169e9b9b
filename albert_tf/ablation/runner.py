"""Runs of ablation studies: training, fine-tuning and scores."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import pathlib
import signal
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any

import keras
import tensorflow as tf

from albert_tf.ablation.config import AblationConfig, ScaleSettings
from albert_tf.ablation.data import StudyData
from albert_tf.ablation.results import RowResult, StudyResult
from albert_tf.ablation.stages import Run, stages_of, training_flops
from albert_tf.ablation.study import (
    ABOVE_PLATEAU,
    DOWNSTREAM,
    MLM,
    MLM_LOSS,
    NSP,
    SOP,
    Study,
)
from albert_tf.analysis.parameters import count_parameters
from albert_tf.data.records import open_records
from albert_tf.files import Path, write_atomically
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.input_files import read_json
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.evaluate import evaluate_checkpoints
from albert_tf.pretraining.train import pretrain
from albert_tf.schema import check_type
from albert_tf.training.checkpoint_files import find_checkpoint
from albert_tf.worker_pool import worker_pool

_logger = logging.getLogger(__name__)

_CHECKPOINTS_PER_RUN = 8
_MAX_EVAL_STEPS = 100
_NEVER = 10**9


@dataclasses.dataclass(frozen=True)
class Downstream:
    """A task to fine-tune pretrained models on, and its tables.

    `all_studies` is whether to fine-tune the models of all studies, not only of
    those with `fine_tuned`.
    """

    task: TaskConfig
    train: Sequence[Path]
    dev: Sequence[Path]
    all_studies: bool


@dataclasses.dataclass(frozen=True)
class Runner:
    """Trains and scores the runs of studies in one folder."""

    config: AblationConfig
    folder: pathlib.Path
    data: StudyData
    downstream: Downstream | None

    @property
    def scale(self) -> ScaleSettings:
        """The scale of the studies."""
        return self.config.scale_settings

    def train(self, studies: Iterable[Study]) -> None:
        """Trains the runs without scores, `num_workers` in parallel.

        Runs that start from the same stage wait for the first of them.
        """
        missing: dict[str, Run] = {}
        for run in (run for study in studies for run in self._runs(study)):
            if self._is_scored(run):
                continue
            # Of equal runs, one that is also fine-tuned.
            if self._name(run) not in missing or self._is_fine_tuned(run):
                missing[self._name(run)] = run
        num_workers = min(self.config.num_workers, len(missing))
        if num_workers < 2:
            for run in missing.values():
                print(f"== {run}", flush=True)
                self.train_run(run)
            return
        cores = max(1, (os.cpu_count() or 1) // num_workers)
        log = os.fspath(self.folder / "workers.log")
        with worker_pool(num_workers, _limit_threads, cores, log=log) as pool:
            running: dict[futures.Future, set[str]] = {}
            while missing or running:
                # Submits only what starts immediately: the pool finishes its
                # queue even after an interrupt.
                while len(running) < num_workers:
                    busy = set().union(*running.values())
                    free = (
                        name
                        for name, run in missing.items()
                        if not busy & self._stage_names(run)
                    )
                    name = next(free, None)
                    if name is None:
                        break
                    run = missing.pop(name)
                    print(f"== {run}", flush=True)
                    future = pool.submit(_train_in_worker, self, run)
                    running[future] = self._stage_names(run)
                done, _ = futures.wait(
                    running, return_when=futures.FIRST_COMPLETED
                )
                for future in done:
                    del running[future]
                    future.result()

    def num_missing(self, study: Study) -> int:
        """Returns the number of a study's runs that are not finished.

        Raises:
          InputError: if a row is not valid for the base model.
        """
        return sum(not self._is_scored(run) for run in self._runs(study))

    def result(self, study: Study) -> StudyResult:
        """Returns the scores of a study whose runs are finished."""
        scores: dict[Run, dict[str, float]] = {}
        for run in self._runs(study):
            scores[run] = {}
            for file in self._score_files(run):
                scores[run] |= _read(file, Mapping[str, float])
            plateau = self.data.plateau_accuracy(run.row.sentence_order)
            scores[run][ABOVE_PLATEAU] = scores[run][MLM] / plateau
        if study.cross_evaluated:
            self._cross_evaluate(scores)
        rows = []
        for row in study.rows:
            own = {run: x for run, x in scores.items() if run.row is row}
            stages = stages_of(next(iter(own)), self.scale)
            rows.append(
                RowResult(
                    name=row.name,
                    runs=tuple(map(self._name, own)),
                    parameters=count_parameters(stages[-1].model).encoder,
                    steps=sum(stage.steps for stage in stages),
                    flops=training_flops(stages, row, self.scale),
                    scores=tuple(own.values()),
                )
            )
        return StudyResult(study, tuple(rows))

    def _runs(self, study: Study) -> list[Run]:
        return [
            Run(study, row, seed)
            for row in study.rows
            for seed in range(self.config.num_seeds)
        ]

    def _cross_evaluate(self, scores: dict[Run, dict[str, float]]) -> None:
        """Adds the accuracy of each model on both SOP and NSP pairs.

        All models are scored in one call, which traces their graph once.
        """
        file = self.folder / "scores" / "sentence_pairs.json"
        known = {}
        if file.exists():
            known = _read(file, Mapping[str, Mapping[str, float]])
        names = {run: self._name(run) for run in scores}
        known |= {
            names[run]: dict.fromkeys((SOP, NSP), math.nan)
            for run, found in scores.items()
            if _has_diverged(found)
        }
        # Equal runs have one name.
        missing = [x for x in dict.fromkeys(names.values()) if x not in known]
        if missing:
            checkpoints = [find_checkpoint(self._folder(x)) for x in missing]
            known |= {name: {} for name in missing}
            for score, order in ((SOP, "sop"), (NSP, "nsp")):
                heldout = open_records(self._records(order), "heldout")
                evaluations = evaluate_checkpoints(
                    checkpoints,
                    heldout,
                    max_steps=_MAX_EVAL_STEPS,
                    score_pairs=True,
                )
                for name, (_, scored) in zip(missing, evaluations, strict=True):
                    known[name][score] = scored[score]
            write_atomically(file, json.dumps(known, indent=2) + "\n")
        for run, name in names.items():
            scores[run] |= known[name]

    def _records(self, order: str) -> str:
        return os.fspath(self.data.records(order))

    def _folder(self, name: str) -> str:
        return os.fspath(self.folder / "runs" / name)

    def _score_files(self, run: Run) -> list[pathlib.Path]:
        """Returns the files of a run's scores, those of fine-tuning last."""
        names = [f"{self._name(run)}.json"]
        if self._is_fine_tuned(run):
            names.append(f"{self._name(run)}.downstream.json")
        return [self.folder / "scores" / name for name in names]

    def _is_scored(self, run: Run) -> bool:
        return all(file.exists() for file in self._score_files(run))

    def _is_fine_tuned(self, run: Run) -> bool:
        return self.downstream is not None and (
            self.downstream.all_studies or run.study.fine_tuned
        )

    def _name(self, run: Run) -> str:
        """Returns the name of a run, equal for equal runs."""
        return stages_of(run, self.scale)[-1].name

    def _stage_names(self, run: Run) -> set[str]:
        return {stage.name for stage in stages_of(run, self.scale)}

    def train_run(self, run: Run) -> None:
        """Trains or resumes a run, and writes its scores, NaN if it diverges.

        Those are a result, too: if it were trained again, it would diverge
        again.
        """
        pairs = {"sop": [SOP], "nsp": [NSP], "none": []}[run.row.sentence_order]
        computations = (
            (self._pretrain, [MLM_LOSS, MLM, *pairs]),
            (self._finetune, [DOWNSTREAM]),
        )
        for file, (compute, names) in zip(
            self._score_files(run), computations, strict=False
        ):
            if not file.exists():
                try:
                    scores = compute(run)
                except FloatingPointError as error:
                    # Without its advice, which is for single runs.
                    problem = str(error).partition(";")[0]
                    _logger.warning("%s: diverged: %s", run, problem)
                    scores = dict.fromkeys(names, math.nan)
                file.parent.mkdir(exist_ok=True)
                write_atomically(file, json.dumps(scores, indent=2) + "\n")

    def _pretrain(self, run: Run) -> dict[str, float]:
        """Pretrains a model and returns its scores on held-out text."""
        row = run.row
        scores: dict[str, float] = {}
        for stage in stages_of(run, self.scale):
            keras.utils.clear_session()  # Frees the graphs of earlier runs.
            period = max(1, stage.steps // _CHECKPOINTS_PER_RUN)
            result = pretrain(
                PretrainConfig(
                    input=self._records(row.sentence_order),
                    output=self._folder(stage.name),
                    model=stage.model,
                    init_from=stage.before and self._folder(stage.before),
                    num_train_steps=stage.steps,
                    train_batch_size=self.scale.train_batch_size,
                    optimizer="adamw",
                    learning_rate=row.learning_rate(
                        self.scale.learning_rate, self.scale.base
                    ),
                    num_warmup_steps=stage.steps // 10,
                    schedule="linear",
                    seed=run.seed,
                    eval_steps=stage.steps,
                    log_steps=period,
                    save_checkpoints_steps=period,
                    keep_checkpoint_max=1,
                    max_eval_steps=_MAX_EVAL_STEPS,
                    log_update_norms=False,
                )
            )
            if result.interrupted:
                raise KeyboardInterrupt
            scores = {
                name: math.nan if value is None else value
                for name, value in result.evaluations[stage.steps].items()
            }
        return scores

    def _finetune(self, run: Run) -> dict[str, float]:
        """Fine-tunes a classifier and returns its accuracy after all steps."""
        assert self.downstream is not None
        pretrained = _read(self._score_files(run)[0], Mapping[str, float])
        if _has_diverged(pretrained):
            raise FloatingPointError("in pretraining")
        keras.utils.clear_session()
        name = self._name(run)
        result = finetune(
            FinetuneConfig(
                task=self.downstream.task,
                train=self.downstream.train,
                dev=self.downstream.dev,
                init_from=self._folder(name),
                output=self.folder / "classifiers" / name,
                seed=run.seed,
                learning_rate=self.scale.finetuning_rate,
                num_train_epochs=self.scale.finetuning_epochs,
                # Scored once, as the best of several scores would be biased.
                eval_steps=_NEVER,
            )
        )
        if result.interrupted:
            raise KeyboardInterrupt
        return {DOWNSTREAM: result.best.scores["accuracy"]}


def _has_diverged(scores: Mapping[str, float]) -> bool:
    """Returns whether these are the scores of a model that diverged."""
    return not math.isfinite(scores[MLM_LOSS])


def _read(file: pathlib.Path, kind: Any) -> dict[str, Any]:
    """Reads scores of an earlier call."""
    values = read_json(file)
    check_type(values, kind, os.fspath(file))
    return values


def _limit_threads(cores: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(cores)


def _train_in_worker(runner: Runner, run: Run) -> None:
    """Trains a run in a process of the pool; Ctrl-C saves and stops it."""
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runner.train_run(run)
    finally:
        signal.signal(signal.SIGINT, ignored)
