"""Studies as data: models to compare, and what their comparison should show."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.pretraining.data_config import SentenceOrder

# Scores of a pretrained model. "nsp_accuracy" is that of its sentence-order
# head on pairs made for NSP, whatever the head was trained on.
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
      name: of the row.
      paper: what the paper calls its row.
      paper_scores: column -> the paper's number, in percent.
      values: fields of the architecture, in place of the base model's.
      factors: fields to multiply. "hidden_size" also multiplies the heads and
        the feed-forward network, and scales initial weights.
      sentence_order: what the pairs of the training data are made for.
      init_from: name of the row whose weights the run begins with.
    """

    name: str
    paper: str = ""
    paper_scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    values: Mapping[str, str | float] = dataclasses.field(default_factory=dict)
    factors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    sentence_order: SentenceOrder = "sop"
    init_from: str | None = None

    def architecture(self, base: AlbertConfig) -> AlbertConfig:
        """Returns the row's model.

        Raises:
          InputError: a field is unknown, or its value does not fit.
        """
        changes = dict(self.values)
        for field, factor in self.factors.items():
            fields = [field]
            if field == "hidden_size":
                fields += ["num_attention_heads", "intermediate_size"]
                # So that activations keep their size.
                deviation = base.initializer_range / factor**0.5
                changes["initializer_range"] = round(deviation, 3)
            for name in fields:
                changes[name] = round(getattr(base, name) * factor)
        return base.replace(**changes)

    def learning_rate(self, rate: float, base: AlbertConfig) -> float:
        """Returns the row's rate: lower for wide models (arXiv:2203.03466).

        At the base model's, one twice as wide stays on the plateau.

        Args:
          rate: the base model's.
          base: the base model.
        """
        width = self.architecture(base).hidden_size
        return rate * min(1.0, base.hidden_size / width)


@dataclasses.dataclass(frozen=True)
class StudyClaim:
    """Something that a study should show, to be judged on its scores.

    Attributes:
      text: the claim, such as what the paper found.
      row: name of the row that it is about.
      than: name of the row that it is compared with, or an accuracy.
      kind: "better": `row` scores higher. "no_better": it does not. "above":
        it scores above the accuracy `than`. "near": it scores within
        `NEAR_CHANCE` of that.
      score: the score to compare; "": `DOWNSTREAM`, or without it `MLM_LOSS`.
    """

    text: str
    row: str
    than: str | float
    kind: Literal["better", "no_better", "above", "near"] = "better"
    score: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Models to compare, such as those of a table of the paper.

    Attributes:
      name: of the study, letters, digits and `_`; its picture is `<name>.png`.
      title: heading of the report.
      rows: the models.
      claims: what the comparison should show.
      table: number of the paper's table; "": it has none.
      length: steps of its runs, as a multiple of the scale's.
      equal_compute: whether all rows compute as much as the first.
      cross_evaluated: whether models are scored on the pairs of NSP and of SOP,
        whatever they were trained on.

    Raises:
      InputError: a name is used twice or missing, or is no name for a file.
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
                f"name={self.name!r} must be letters, digits and `_`"
            )
        names: list[str] = []
        for row in self.rows:
            if row.name in names:
                raise InputError(f"two rows are called {row.name!r}")
            if row.init_from is not None:
                self._check_row(row.init_from, names)
            names.append(row.name)
        if not names:
            raise InputError(f"study {self.name}: it needs a row")
        for claim in self.claims:
            self._check_row(claim.row, names)
            if isinstance(claim.than, str):
                self._check_row(claim.than, names)

    @property
    def sentence_orders(self) -> tuple[SentenceOrder, ...]:
        """What the pairs of its records are made for."""
        both: list[SentenceOrder] = ["nsp", "sop"]
        orders = [row.sentence_order for row in self.rows]
        orders += both if self.cross_evaluated else []
        return tuple(dict.fromkeys(orders))

    def _check_row(self, name: str, names: Sequence[str]) -> None:
        if name not in names:
            rows = ", ".join(map(repr, names)) or "none"
            raise InputError(
                f"study {self.name}: no row {name!r} here, only {rows}"
            )

    def with_rows(self, *names: str) -> Study:
        """Returns the study with some rows, and the claims about them.

        Raises:
          InputError: there is no such row, or a row begins with the weights
            of one that is left out.
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
