"""Where a run starts: the weights of any checkpoint, for continued training."""

from __future__ import annotations

import dataclasses
import hashlib
import os

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.growing import grow
from albert_tf.interop.opening import open_checkpoint
from albert_tf.models.pretrained import assign_weights
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.evaluate_pretraining import load_run_config
from albert_tf.tasks.pretrain_config import PretrainConfig
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.training.checkpoint_files import FOLDER, list_checkpoints
from albert_tf.training.files import read_text
from albert_tf.training.run_folder import FILE

REPORT_FILE = "init.txt"

_HEADS_OF_PRETRAINING = ("mlm_head", "sop_head")
# What decides on the case of the letters that the pieces are made of.
_CASE = ("do_lower_case", "strip_accents")


@dataclasses.dataclass(frozen=True)
class InitialWeights:
    """A checkpoint of the run's architecture that a new run starts from.

    Attributes:
      path: as it was given.
      checkpoint: what it holds, grown to the run's architecture.
      digest: a hash of all weights.
      report: what is read, left and made; some lines, the last with the hash.
    """

    path: str
    checkpoint: Checkpoint
    digest: str
    report: str

    def assign(self, model: AlbertPretrainer) -> None:
        """Sets the weights of a new model; heads that are not there stay new.

        Raises:
          InputError: a tensor has another shape.
        """
        assign_weights(model, self.checkpoint, new_head=True)

    def check_unchanged(self, run_dir: str | os.PathLike[str]) -> None:
        """Refuses a run that was begun with other weights from this path.

        Args:
          run_dir: the run's folder; it may be new.

        Raises:
          InputError: the folder's report has another hash.
        """
        run_dir = os.fspath(run_dir)
        report = os.path.join(run_dir, REPORT_FILE)
        # Without a record, no run has begun: its files are written anew.
        if not tf.io.gfile.exists(os.path.join(run_dir, FILE)):
            return
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
        checkpoint or records have no tokenizer, sizes are all there is to
        compare, and `open_records` does that.

        Args:
          tokenizer: the records', if they have one.

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


def resolve_start(
    config: PretrainConfig,
) -> tuple[PretrainConfig, InitialWeights | None]:
    """Returns the settings with their architecture, and where the run starts.

    Without `model`, the architecture is that of the checkpoint, with
    `model_changes`. A run that has a checkpoint of its own goes on from that,
    and does not need what it once started from.

    Raises:
      InputError: the checkpoint cannot be opened, or cannot grow to the
        architecture.
    """
    if config.init_from is None:
        return config, None
    path = os.fspath(config.init_from)
    output = os.fspath(config.output_dir)
    if list_checkpoints(os.path.join(output, FOLDER)):
        model = config.model or load_run_config(output).replace(
            **config.model_changes
        )
        return dataclasses.replace(config, model=model, model_changes={}), None
    # Whose head it is does not matter to a model without one.
    checkpoint = open_checkpoint(path, head="classifier_head")
    model = config.model or checkpoint.config.replace(**config.model_changes)
    checkpoint = grow(checkpoint, model)
    config = dataclasses.replace(config, model=model, model_changes={})
    digest = _digest(checkpoint)
    report = _report(checkpoint, digest)
    return config, InitialWeights(path, checkpoint, digest, report)


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
    left = set(checkpoint.heads) - set(_HEADS_OF_PRETRAINING)
    if left:
        lines.append(f"not part of this model: {', '.join(sorted(left))}")
    wanted = ("pooler", *_HEADS_OF_PRETRAINING)
    new = [part for part in wanted if part not in checkpoint.parts]
    if new:
        lines.append(f"new, with random weights: {', '.join(new)}")
    lines.append(f"sha256 of the weights: {digest}")
    return "\n".join(lines)


def _digest(checkpoint: Checkpoint) -> str:
    """Returns a hash of all weights, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(checkpoint.arrays):
        digest.update(path.encode())
        digest.update(np.ascontiguousarray(checkpoint.arrays[path]).data)
    return digest.hexdigest()
