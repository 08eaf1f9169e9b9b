"""Definition of studies: the models to compare, and claims about them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.pretraining.data_config import SentenceOrder

# Scores of a pretrained model. "nsp_accuracy" is the accuracy of its
# sentence-order head on NSP pairs, whatever the head was trained on.
MLM_LOSS, MLM = "mlm_loss", "mlm_accuracy"
SOP, NSP = "sop_accuracy", "nsp_accuracy"
DOWNSTREAM = "downstream_accuracy"

# The paper's model trained with NSP has 52.0 % on sentence order.
CHANCE = 0.5
NEAR_CHANCE = 0.05


@dataclasses.dataclass(frozen=True)
class StudyRow:
    """A row of a study's table: a model, and its counterpart in the paper.

    Attributes:
      name: Name of the row.
      paper: Name of the row in the paper.
      paper_scores: The paper's scores in percent, by column.
      values: Fields of `AlbertConfig` that replace the base model's.
      factors: Fields to multiply. "hidden_size" also multiplies the number of
        heads and the feed-forward size, and scales the initial weights.
      sentence_order: Second objective of the training data.
      init_from: Name of the row whose trained weights the run starts from.
    """

    name: str
    paper: str = ""
    paper_scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    values: Mapping[str, str | float] = dataclasses.field(default_factory=dict)
    factors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    sentence_order: SentenceOrder = "sop"
    init_from: str | None = None

    def architecture(self, base: AlbertConfig) -> AlbertConfig:
        """Returns the row's architecture.

        Raises:
          InputError: If a field is unknown or its value is invalid.
        """
        changes = dict(self.values)
        for field, factor in self.factors.items():
            fields = [field]
            if field == "hidden_size":
                fields += ["num_attention_heads", "intermediate_size"]
                # Keeps activations equally large.
                deviation = base.initializer_range / factor**0.5
                changes["initializer_range"] = round(deviation, 3)
            for name in fields:
                changes[name] = round(getattr(base, name) * factor)
        return base.replace(**changes)

    def learning_rate(self, rate: float, base: AlbertConfig) -> float:
        """Returns the learning rate, lower for wide models (arXiv:2203.03466).

        At the base model's rate, a model twice as wide stays on the plateau.

        Args:
          rate: Learning rate of the base model.
          base: The base model.
        """
        width = self.architecture(base).hidden_size
        return rate * min(1.0, base.hidden_size / width)


@dataclasses.dataclass(frozen=True)
class StudyClaim:
    """A claim about the rows of a study, to be tested on their scores.

    Attributes:
      text: The claim in words, such as a finding of the paper.
      row: Name of the row that the claim is about.
      than: Name of the row to compare with, or an accuracy as a `float`.
      kind: "better" (`row` is better than `than`), "no_better" (it is not),
        "above" (it scores above the accuracy `than`) or "near" (within
        `NEAR_CHANCE` of it).
      score: Name of the score to compare; "" for the downstream accuracy, or
        the MLM loss if models are not fine-tuned.
    """

    text: str
    row: str
    than: str | float
    kind: Literal["better", "no_better", "above", "near"] = "better"
    score: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """A comparison of models, such as a table of the paper.

    Attributes:
      name: Letters, digits and `_`; the plot is written to `<name>.png`.
      title: Heading in the report.
      rows: The models to compare.
      claims: Claims to test on the scores.
      table: Number of the paper's table, or "".
      length: Number of steps, as a multiple of the scale's.
      equal_compute: Whether to give all rows as many FLOPs as the first.
      cross_evaluated: Whether to score all models on both NSP and SOP pairs,
        whatever they were trained on.

    Raises:
      InputError: If a name is invalid, used twice, or refers to no row.
    """

    name: str
    title: str
    rows: tuple[StudyRow, ...]
    claims: tuple[StudyClaim, ...] = ()
    table: str = ""
    length: float = 1.0
    equal_compute: bool = False
    cross_evaluated: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w+", self.name):
            raise InputError(
                f"name={self.name!r} must consist of letters, digits and `_`"
            )
        names: list[str] = []
        for row in self.rows:
            if row.name in names:
                raise InputError(
                    f"study {self.name}: two rows are named {row.name!r}"
                )
            if row.init_from is not None:
                self._check_row(row.init_from, names)
            names.append(row.name)
        if not names:
            raise InputError(f"study {self.name}: rows must not be empty")
        for claim in self.claims:
            self._check_row(claim.row, names)
            if isinstance(claim.than, str):
                self._check_row(claim.than, names)

    @property
    def sentence_orders(self) -> tuple[SentenceOrder, ...]:
        """Sentence orders of the records that the study needs."""
        both: list[SentenceOrder] = ["nsp", "sop"]
        orders = [row.sentence_order for row in self.rows]
        orders += both if self.cross_evaluated else []
        return tuple(dict.fromkeys(orders))

    def _check_row(self, name: str, names: Sequence[str]) -> None:
        if name not in names:
            rows = ", ".join(map(repr, names)) or "none"
            raise InputError(
                f"study {self.name}: unknown row {name!r}, known rows: {rows}"
            )

    def with_rows(self, *names: str) -> Study:
        """Returns the study with some of its rows and the claims about them.

        Raises:
          InputError: If there is no such row, or a row starts from the weights
            of a row that is left out.
        """
        for name in names:
            self._check_row(name, [row.name for row in self.rows])
        return dataclasses.replace(
            self,
            rows=tuple(row for row in self.rows if row.name in names),
            claims=tuple(
                claim
                for claim in self.claims
                if claim.row in names
                and (isinstance(claim.than, float) or claim.than in names)
            ),
        )
