"""Pretraining runs, from the settings to the last checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from albert_tf.data.manifest import DATA_FILE, sequences_per_row
from albert_tf.data.mixture import plain_patterns
from albert_tf.data.record_files import describe_corpora
from albert_tf.data.records import Records
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import check_tokenizer
from albert_tf.models.base import AlbertModel
from albert_tf.objectives.objective import Objective
from albert_tf.objectives.registry import load_objective_module
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.depth import loss_at_depth
from albert_tf.pretraining.evaluate import record_scores
from albert_tf.pretraining.initial_weights import (
    REPORT_FILE,
    InitialWeights,
    resolve_initial_weights,
)
from albert_tf.pretraining.phase_records import (
    PhaseRecords,
    check_best_metric,
    objective_of,
    open_phases,
    trained_positions,
)
from albert_tf.pretraining.positions import (
    Evaluate,
    on_repeated_positions,
    repeat_trained_positions,
)
from albert_tf.pretraining.resuming import check_past
from albert_tf.pretraining.schedule import make_schedule
from albert_tf.pretraining.summary import start_summary, warn_of_plateau
from albert_tf.settings import takes
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.phases import TrainingPhase
from albert_tf.training.result import TrainingResult
from albert_tf.training.run import open_run, strategy_of
from albert_tf.training.workers import is_chief

MODEL_CONFIG_FILE = "config.json"


@takes(PretrainConfig)
def pretrain(
    config: PretrainConfig,
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    command_files: Mapping[str, str] | None = None,
) -> TrainingResult:
    """Starts or resumes a pretraining run.

    Before the first step, `run.json` (settings and versions), `config.json`,
    the tokenizer and `data_manifest.json` are written to the folder of the run;
    then checkpoints, `metrics.jsonl` and TensorBoard's events. The manifest is
    that of the last phase's records; for a mixture, it has the settings and the
    sizes of the corpora. A run that starts from a checkpoint (`init_from`) also
    has `init.txt`, a report of the weights that were loaded, skipped and newly
    initialized.

    Args:
      config: the settings.
      callbacks: Keras callbacks; see `RunCallbacks`.
      command_files: text files that describe the command, such as its flags, to
        write to the folder of the run: name -> content.

    Returns:
      The result of training. Its `evaluation` has the metrics of the held-out
      split of the last phase's records and `Records.baselines`; it is empty
      without a held-out split.

    Raises:
      InputError: if records, architecture and folder do not fit together.
        Nothing is trained or written then.
    """
    if config.objective_module is not None:
        load_objective_module(config.objective_module)
    # Workers have to connect before TensorFlow initializes its devices.
    inputs = [x.config.input for x in config.resolved_phases()]
    strategy = strategy_of(
        config,
        input=[x for each in inputs for x in plain_patterns(each)],
        output=config.output,
    )
    config, initial = resolve_initial_weights(config)
    phases = open_phases(config)
    for phase in phases:
        _check_records(phase.resolved.config, phase.original, initial)
    heldout = phases[-1].heldout
    settings = config.settings() | {"records": phases[0].records.identity}
    objectives = [objective_of(settings, phase.records) for phase in phases]
    check_best_metric(config, heldout)
    trained = trained_positions(
        config, phases, initial.trained_positions if initial else None
    )
    for recorded, phase, positions in zip(
        settings.get("phases", ()), phases, trained, strict=False
    ):
        recorded["records"] = phase.records.identity
        recorded["trained_positions"] = positions
    # As runs have recorded it that are resumed.
    if "nsp" in [objective.pair_task for objective in objectives]:
        settings["pair_task"] = "nsp"
    make_schedule(config)  # Raises if it is not possible.
    check_past(config, settings)
    with open_run(
        config,
        settings,
        strategy,
        files=_run_files(config, heldout, initial, max(trained)),
        command_files=command_files,
    ) as run:
        if initial and run.folder.resumes:
            initial.check_unchanged(config.output)

        def make() -> AlbertModel:
            # A model may have heads of pairs only if its objective has pairs.
            pairs = [x for x in objectives if x.pair_task != "none"]
            model = (pairs or objectives)[0].create_model(
                config.deepest_architecture, rematerialize=config.rematerialize
            )
            for objective in objectives:
                objective.attach(model)
            if initial:
                initial.assign(model)
            return model

        model = run.make_model(make)
        training = _Phases(config, phases, objectives, trained, model, strategy)
        with contextlib.ExitStack() as stack:
            for phase in phases:
                stack.enter_context(
                    phase.original.explained_errors(config.architecture)
                )
            parts = [training.phase(number) for number in range(len(phases))]
            result = run.train(
                model,
                parts[0].loss,
                make_schedule(config),
                parts,
                notes=f"{initial.report}\n" if initial else "",
                summary=start_summary(config, phases, model, strategy),
                evaluate=parts[-1].evaluate,
                initial_values=initial.moments if initial else None,
                callbacks=callbacks,
            )
    evaluation = dict(result.evaluation)
    if evaluation:
        evaluation |= heldout.baselines("heldout")
    if is_chief(strategy) and not result.interrupted:
        baselines = phases[-1].records.baselines("train")
        warn_of_plateau(evaluation or {**result.metrics, **baselines})
    return dataclasses.replace(result, evaluation=evaluation)


def _check_records(
    config: PretrainConfig, records: Records, initial: InitialWeights | None
) -> None:
    """Checks that records fit the model and its initial weights."""
    tokenizer = records.tokenizer
    if initial:
        name = f"init_from={initial.path}"
        check_tokenizer(name, initial.checkpoint, tokenizer)
    if tokenizer and tokenizer.vocab_size != config.architecture.vocab_size:
        raise InputError(
            f"records {config.input}: made with a vocabulary of "
            f"{tokenizer.vocab_size} pieces, but the model has vocab_size="
            f"{config.architecture.vocab_size}; add "
            f"--config_overrides=vocab_size={tokenizer.vocab_size} or use "
            "other records"
        )
    records.check_model(config.architecture)


def _run_files(
    config: PretrainConfig,
    records: Records,
    initial: InitialWeights | None,
    trained_positions: int,
) -> dict[str, str | bytes]:
    """Returns the files that are written before the first step."""
    files: dict[str, str | bytes] = {
        # That of the last checkpoint; `config_of_checkpoint` knows the others.
        MODEL_CONFIG_FILE: config.resolved_phases()[-1]
        .config.architecture.replace(trained_positions=trained_positions)
        .to_json()
    }
    if records.tokenizer:
        files |= tokenizer_files(records.tokenizer)
    if records.manifest:
        manifest = dict(records.manifest)
        found = list(itertools.chain(*records.files.values()))
        if records.corpora or len({id(file.manifest) for file in found}) > 1:
            # The other entries are only about the first data set.
            kept = ("format", "version", "settings", "tokenizer", "versions")
            manifest = {x: manifest[x] for x in kept if x in manifest}
            manifest["splits"] = {}
        if records.corpora:
            manifest["corpora"] = describe_corpora(records.corpora, found)
        files[DATA_FILE] = json.dumps(manifest, indent=2) + "\n"
    if initial:
        files[REPORT_FILE] = initial.report + "\n"
    return files


@dataclasses.dataclass(frozen=True)
class _Phases:
    """What the phases of a run train and evaluate.

    The records of the last phase are evaluated. `trained` is the number of
    trained positions after each phase; the model has the largest depth.
    """

    config: PretrainConfig
    phases: Sequence[PhaseRecords]
    objectives: Sequence[Objective]
    trained: Sequence[int]
    model: AlbertModel
    strategy: tf.distribute.Strategy

    def phase(self, number: int) -> TrainingPhase:
        """Returns a phase for the trainer."""
        phase, objective = self.phases[number], self.objectives[number]
        config, records = phase.resolved.config, phase.records
        trained = self.trained[number - 1] if number else None
        begin = None
        if trained is not None and records.max_seq_length > trained:
            begin = functools.partial(repeat_trained_positions, trained)

        def dataset_fn(
            first_batch: int,
            input_context: tf.distribute.InputContext | None = None,
        ) -> tf.data.Dataset:
            size = config.train_batch_size
            return records.dataset(
                size,
                seed=config.seed,
                first_example=phase.first_example + first_batch * size,
                model=config.architecture,
                reading_groups=config.reading_groups,
                input_context=input_context,
            )

        return TrainingPhase(
            first_step=phase.resolved.first_step,
            dataset_fn=dataset_fn,
            loss=loss_at_depth(objective, self.model, phase.depth),
            gradient_accumulation_steps=config.gradient_accumulation_steps,
            flops_per_example=objective.step_flops(
                config.architecture,
                records.max_seq_length,
                records.max_predictions_per_seq,
                sequences_per_row(records.manifest),
            ),
            name=phase.describe(),
            num_shards=config.reading_groups,
            begin=begin,
            evaluate=self._evaluation(number),
        )

    def _evaluation(self, number: int) -> Evaluate | None:
        """Returns the evaluation of the model that a phase trains."""
        heldout, trained = self.phases[-1].heldout, self.trained[number]
        if "heldout" not in heldout.files:
            return None
        evaluate = self._evaluations[self.phases[number].depth]
        if trained < heldout.max_seq_length:
            return on_repeated_positions(evaluate, self.model, trained)
        return evaluate

    @functools.cached_property
    def _evaluations(self) -> dict[int, Evaluate]:
        """The evaluations on held-out records, by the depth of the model."""
        config, heldout = self.config, self.phases[-1].heldout
        size, model = config.eval_batch_size, self.model
        objective = objective_of(config.settings(), heldout)
        return {
            depth: functools.partial(
                record_scores(
                    Evaluator(
                        self.strategy,
                        model,
                        loss_at_depth(objective, model, depth),
                        size,
                    ),
                    heldout,
                    "heldout",
                    size,
                    config.architecture,
                ),
                config.max_eval_steps,
            )
            for depth in {phase.depth for phase in self.phases}
        }
