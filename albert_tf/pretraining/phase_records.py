"""The records of the phases of a run."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.data.heldout_leaks import find_leaks
from albert_tf.data.record_files import check_one_vocabulary
from albert_tf.data.records import Records, open_records
from albert_tf.errors import InputError, counted
from albert_tf.files import split_patterns
from albert_tf.objectives.objective import Objective
from albert_tf.objectives.registry import make_objective
from albert_tf.pretraining.config import PretrainConfig, ResolvedPhase
from albert_tf.training.run_folder import read_settings

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class PhaseRecords:
    """A phase of a run and its records.

    Attributes:
      resolved: steps and settings of the phase.
      original: the records, with the settings of create-data.
      records: the records, with the sentence order and masking of the phase.
      first_example: number of their examples that earlier phases consume.
    """

    resolved: ResolvedPhase
    original: Records
    records: Records
    first_example: int

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.resolved.config.architecture.num_hidden_layers

    @property
    def heldout(self) -> Records:
        """The records to evaluate on.

        Held-out examples are masked by create-data. Sentence order is not
        evaluated if the phase trains another one.
        """
        if self.original.pair_task == self.records.pair_task:
            return self.original
        return _with_settings(self.original, sentence_order="none")

    def describe(self) -> str:
        """Returns a description of the phase, for the log."""
        config, changes = self.resolved.config, self.resolved.example_settings
        return ", ".join(
            [
                f"{config.train_batch_size:,} examples of "
                f"{self.records.max_seq_length} tokens",
                counted(self.depth, "layer"),
                *(f"{name}={value}" for name, value in changes.items()),
                f"from {','.join(_inputs(config))}",
            ]
        )


def open_phases(config: PretrainConfig) -> list[PhaseRecords]:
    """Opens the records of all phases, which must have one vocabulary.

    Phases with the same records continue where the previous one ended, so that
    all examples are used before any is repeated. Warns if they have documents
    that are held out of the last phase's, which all evaluations score.
    """
    opened: dict[tuple[str, ...], Records] = {}
    used: defaultdict[str, int] = defaultdict(int)
    phases = []
    for number, resolved in enumerate(config.resolved_phases()):
        inputs = _inputs(resolved.config)
        if inputs not in opened:
            opened[inputs] = open_records(resolved.config.input, heldout=True)
        records = opened[inputs]
        try:
            changed = with_example_settings(records, resolved.example_settings)
        except InputError as error:
            raise InputError(f"phases[{number}]: {error}") from None
        phases.append(
            PhaseRecords(resolved, records, changed, used[records.identity])
        )
        used[records.identity] += resolved.examples
    check_one_vocabulary(
        file
        for records in opened.values()
        for files in records.files.values()
        for file in files
    )
    trained = [x for each in opened.values() for x in each.files["train"]]
    scored = phases[-1].original.files.get("heldout", ())
    for leak in find_leaks(trained, scored):
        _logger.warning("%s", leak)
    return phases


def objective_of(settings: Mapping[str, Any], records: Records) -> Objective:
    """Returns the objective of a run on records.

    `settings` are those of the run, as in its `run.json`.
    """
    return make_objective(
        settings.get("objective", "mlm"),
        settings.get("objective_settings", {}),
        pair_task=records.pair_task,
        mask_id=records.tokenizer.mask_id if records.tokenizer else None,
    )


def check_best_metric(config: PretrainConfig, records: Records) -> None:
    """Checks that the evaluation on records has `best_metric`."""
    known: tuple[str, ...] = ()
    if "heldout" in records.files:
        known = objective_of(config.settings(), records).metric_names
    if config.best_metric and config.best_metric not in known:
        raise InputError(
            f"best_metric={config.best_metric!r}: the evaluation on records "
            f"{records.files['train'][0].path} has "
            f"{', '.join(known) or 'no held-out split'}"
        )


def trained_positions(
    config: PretrainConfig, phases: Sequence[PhaseRecords], initial: int | None
) -> list[int]:
    """Returns the number of trained positions after each phase.

    `initial` are those that the weights of `init_from` were trained on; None
    without `init_from`, or in a resumed run, which has recorded them.
    """
    before = initial or 0
    if config.init_from is not None and initial is None:
        recorded = read_settings(config.output).get("phases")
        before = recorded[0].get("trained_positions", 0) if recorded else 0
    lengths = [phase.records.max_seq_length for phase in phases]
    return list(itertools.accumulate(lengths, max, initial=before))[1:]


def with_example_settings(
    records: Records, changes: Mapping[str, Any]
) -> Records:
    """Returns records with other `EXAMPLE_SETTINGS`.

    They can be changed only for text records, whose examples are made in
    training.
    """
    changes = {
        name: value
        for name, value in changes.items()
        if records.manifest is None
        or records.manifest["settings"].get(name) != value
    }
    if not changes:
        return records
    path = records.files[records.split][0].path
    name, value = next(iter(changes.items()))
    if records.manifest is None or not records.files[records.split][0].is_text:
        raise InputError(
            f"{name}={value}: the records {path} are already masked; make them "
            "with create-data --masking=dynamic, or make others for this phase"
        )
    if records.pair_task == "none" and "sentence_order" in changes:
        raise InputError(
            f"sentence_order={changes['sentence_order']}: the records {path} "
            "have chunks that span documents; make records with create-data "
            "--sentence_order=sop, which a phase can also use without pairs"
        )
    settings = {**records.manifest["settings"], **changes}
    length = records.max_seq_length
    limit = settings["max_predictions_per_seq"]
    if limit >= length:
        raise InputError(
            f"max_predictions_per_seq={limit} must be below the {length} "
            f"tokens of the records {path}"
        )
    wanted = settings["masked_lm_prob"] * length
    if "max_predictions_per_seq" not in changes and (
        "masked_lm_prob" in changes and wanted > limit + 1
    ):
        raise InputError(
            f"masked_lm_prob={settings['masked_lm_prob']} of {length} tokens "
            f"is {wanted:.0f} predictions, but the records {path} have "
            f"max_predictions_per_seq={limit}; set that, too"
        )
    return dataclasses.replace(
        _with_settings(records, **changes), max_predictions_per_seq=limit
    )


def _with_settings(records: Records, **settings: Any) -> Records:
    manifest = records.manifest
    assert manifest is not None
    changed = {**manifest, "settings": {**manifest["settings"], **settings}}
    return dataclasses.replace(records, manifest=changed)


def _inputs(config: PretrainConfig) -> tuple[str, ...]:
    return tuple(split_patterns(config.input))
