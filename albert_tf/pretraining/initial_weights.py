"""Initial weights of a run, from a checkpoint of any format."""

from __future__ import annotations

import dataclasses
import hashlib
import os

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import read_text
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.growing import grow
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.pretrained import assign_weights
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.training.checkpoint_files import FOLDER, list_checkpoints
from albert_tf.training.run_folder import load_run_config

REPORT_FILE = "init.txt"

_HEADS_OF_PRETRAINING = ("mlm_head", "sop_head")
# Tokenizer settings that change the letters of the pieces.
_CASE = ("do_lower_case", "strip_accents")


@dataclasses.dataclass(frozen=True)
class InitialWeights:
    """A checkpoint of the run's architecture that a new run starts from.

    Attributes:
      path: as it was given.
      checkpoint: what it holds, grown to the run's architecture.
      trained_positions: how many positions the checkpoint has trained.
      digest: a hash of all weights.
      report: lines on the weights that were loaded, skipped and newly
        initialized; the last one has the hash.
    """

    path: str
    checkpoint: Checkpoint
    trained_positions: int
    digest: str
    report: str

    def assign(self, model: AlbertPretrainer) -> None:
        """Assigns the weights to a model; missing heads keep their own.

        Raises:
          InputError: a tensor has another shape.
        """
        assign_weights(model, self.checkpoint, new_head=True)

    def check_unchanged(self, run_dir: str | os.PathLike[str]) -> None:
        """Refuses to resume a run begun with other weights from this path.

        Args:
          run_dir: the run's folder.

        Raises:
          InputError: the folder's report has another hash.
        """
        run_dir = os.fspath(run_dir)
        report = os.path.join(run_dir, REPORT_FILE)
        if tf.io.gfile.exists(report) and self.digest not in read_text(report):
            raise InputError(
                f"init_from={self.path}: has changed since the run in {run_dir}"
                f" was begun: the sha256 of its weights is {self.digest}, not "
                f"that in {report}; restore it or use another folder"
            )

    def check_tokenizer(self, tokenizer: Tokenizer | None) -> None:
        """Refuses records of another vocabulary.

        The pieces must be the same, id by id, and the case of the letters.
        KerasHub's tokenizers do not say which case the weights saw. Where
        checkpoint or records have no tokenizer, only sizes can be compared,
        which `Records.check_model` does.

        Args:
          tokenizer: tokenizer of the records, if they have one.

        Raises:
          InputError: names the difference.
        """
        ours = self.checkpoint.tokenizer
        if ours is None or tokenizer is None:
            return
        if ours.fingerprint != tokenizer.fingerprint:
            difference = _first_difference(ours, tokenizer)
            if difference:
                raise InputError(
                    f"init_from={self.path}: its vocabulary is not that of the "
                    f"records: {difference}; make the records with the "
                    "tokenizer of the checkpoint"
                )
        if self.checkpoint.format == "KerasHub":
            return
        for name in _CASE:
            before, after = ours.settings[name], tokenizer.settings[name]
            if before != after:
                raise InputError(
                    f"init_from={self.path}: its tokenizer has "
                    f"{name}={before}, that of the records {name}={after}; "
                    "make the records with the tokenizer of the checkpoint"
                )


def resolve_initial_weights(
    config: PretrainConfig,
) -> tuple[PretrainConfig, InitialWeights | None]:
    """Opens the checkpoint of `init_from` and completes the architecture.

    Without `model`, the architecture is that of the checkpoint, with
    `config_overrides`. A run that has a checkpoint of its own resumes from that
    one and no longer needs `init_from`.

    Returns:
      The settings with an architecture, and the weights; None for a run without
      `init_from` or to resume.

    Raises:
      InputError: the checkpoint cannot be opened, or cannot grow to the
        architecture.
    """
    if config.init_from is None:
        return config, None
    path = os.fspath(config.init_from)
    output = os.fspath(config.output)
    if list_checkpoints(os.path.join(output, FOLDER)):
        model = config.model or load_run_config(output).replace(
            **config.config_overrides
        )
        return dataclasses.replace(
            config, model=model, config_overrides={}
        ), None
    # Whose head it is does not matter to a model without one.
    checkpoint = open_checkpoint(path, head="classifier_head")
    before = (
        checkpoint.config.trained_positions
        or checkpoint.config.max_position_embeddings
    )
    # It is the run's own, and no setting of it.
    architecture = checkpoint.config.replace(trained_positions=None)
    model = config.model or architecture.replace(**config.config_overrides)
    checkpoint = grow(checkpoint, model)
    config = dataclasses.replace(config, model=model, config_overrides={})
    digest = _digest(checkpoint)
    report = _report(checkpoint, digest)
    return config, InitialWeights(path, checkpoint, before, digest, report)


def _first_difference(ours: Tokenizer, theirs: Tokenizer) -> str:
    """Returns where two vocabularies differ, or "": bytes may differ alone."""
    if ours.vocab_size != theirs.vocab_size:
        return f"{ours.vocab_size} pieces, the records' {theirs.vocab_size}"
    for number in range(ours.vocab_size):
        pieces = ours.id_to_piece(number), theirs.id_to_piece(number)
        if pieces[0] != pieces[1]:
            return (
                f"piece {number} is {pieces[0]!r}, the records' {pieces[1]!r}"
            )
    return ""


def _report(checkpoint: Checkpoint, digest: str) -> str:
    lines = [checkpoint.report()]
    unused = set(checkpoint.heads) - set(_HEADS_OF_PRETRAINING)
    if unused:
        names = ", ".join(sorted(unused))
        lines.append(f"skipped (unused by this model): {names}")
    wanted = ("pooler", *_HEADS_OF_PRETRAINING)
    new = [part for part in wanted if part not in checkpoint.components]
    if new:
        lines.append(f"newly initialized: {', '.join(new)}")
    lines.append(f"sha256 of the weights: {digest}")
    return "\n".join(lines)


def _digest(checkpoint: Checkpoint) -> str:
    """Returns a hash of all weights, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(checkpoint.arrays):
        digest.update(path.encode())
        digest.update(np.ascontiguousarray(checkpoint.arrays[path]).data)
    return digest.hexdigest()
