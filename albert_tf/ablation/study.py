"""Definition of studies: the models to compare, and claims about them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from albert_tf.config import AlbertConfig
from albert_tf.data.data_config import SentenceOrder
from albert_tf.errors import InputError

# Scores of a pretrained model. "nsp_accuracy" is the accuracy of its
# sentence-order head on NSP pairs, whatever the head was trained on.
MLM_LOSS, MLM = "mlm_loss", "mlm_accuracy"
SOP, NSP = "sop_accuracy", "nsp_accuracy"
DOWNSTREAM = "downstream_accuracy"
# The MLM accuracy on records like those of the training, as a multiple of
# `StudyData.plateau_accuracy`.
ABOVE_PLATEAU = "above_plateau"

CHANCE = 0.5

# Differences that are too small to matter, for claims that two models are
# equally good. 0.05 of the loss is 5 % of the perplexity. On sentence pairs,
# 5 points are more than the distance from chance of the paper's model trained
# with NSP on sentence order, 52.0 %.
MARGINS: Mapping[str, float] = {
    MLM_LOSS: 0.05,
    MLM: 0.01,
    SOP: 0.05,
    NSP: 0.05,
    DOWNSTREAM: 0.01,
}


@dataclasses.dataclass(frozen=True)
class StudyRow:
    """A row of a study's table: a model, and its counterpart in the paper.

    Attributes:
      name: Name of the row.
      paper: Name of the row in the paper.
      paper_scores: The paper's scores in percent, by column.
      values: Fields of `AlbertConfig` that replace the base model's.
      factors: Fields to multiply. "hidden_size" also multiplies the number of
        heads and the feed-forward size, and scales the initial weights, unless
        `values` has these fields.
      sentence_order: Second objective of the training data.
      grown_from: Fields of the models that are trained before, each from the
        weights of the one before it; other fields are the row's. The steps are
        divided equally among all of them and the row's own model, so that rows
        differ in their models, not in the length of their training.

    Raises:
      InputError: if a field is both replaced and multiplied.
    """

    name: str
    paper: str = ""
    paper_scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    # `bool` is a `float` to type checkers, but not to `check_type`.
    values: Mapping[str, str | float | bool] = dataclasses.field(
        default_factory=dict
    )
    factors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    sentence_order: SentenceOrder = "sop"
    grown_from: tuple[Mapping[str, str | float | bool], ...] = ()

    def __post_init__(self) -> None:
        for field in self.factors:
            if field in self.values:
                raise InputError(
                    f"row {self.name!r}: {field} is in both values and factors"
                )

    def stages(self, base: AlbertConfig) -> list[AlbertConfig]:
        """Returns the models that are trained one after another.

        The last one is the row's own; see `grown_from`. Models that compute
        the same have equal architectures.

        Raises:
          InputError: if a field is unknown or its value is invalid.
        """
        values = [{**self.values, **stage} for stage in self.grown_from]
        return [
            _canonical(self.architecture(base, each))
            for each in [*values, self.values]
        ]

    def architecture(
        self,
        base: AlbertConfig,
        values: Mapping[str, str | float] | None = None,
    ) -> AlbertConfig:
        """Returns the row's architecture, or one with other `values`.

        Raises:
          InputError: if a field is unknown or its value is invalid.
        """
        changes: dict[str, str | float] = {}
        for field, factor in self.factors.items():
            fields = [field]
            if field == "hidden_size":
                fields += ["num_attention_heads", "intermediate_size"]
                # Keeps activations equally large.
                deviation = base.initializer_range / factor**0.5
                changes["initializer_range"] = round(deviation, 3)
            for name in fields:
                changes[name] = round(getattr(base, name) * factor)
        # The values of a stage replace factors of the row.
        changes.update(self.values if values is None else values)
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


def _canonical(model: AlbertConfig) -> AlbertConfig:
    """Returns the model with one name for equal ways of sharing.

    Groups of one layer each share nothing, whatever `sharing` says.
    """
    if model.sharing == "none":
        model = model.replace(num_hidden_groups=model.num_hidden_layers)
    if model.num_hidden_groups == model.num_hidden_layers:
        model = model.replace(sharing="all")
    return model


@dataclasses.dataclass(frozen=True)
class StudyClaim:
    """A claim about the rows of a study, to be tested on their scores.

    Attributes:
      text: The claim in words, such as a finding of the paper.
      row: Name of the row that the claim is about.
      than: Name of the row to compare with, or a score, such as 0.5.
      kind: "better" (`row` is better than `than`) or "equal" (they differ by
        less than the margin in `MARGINS`).
      score: Name of the score to compare; "" for the downstream accuracy, or
        the MLM loss if the study's models are not fine-tuned.
    """

    text: str
    row: str
    than: str | float
    kind: Literal["better", "equal"] = "better"
    score: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.than, int):
            object.__setattr__(self, "than", float(self.than))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """A comparison of models, such as a table of the paper.

    Attributes:
      name: Letters, digits and `_`; the plot is written to `<name>.png`.
      title: Heading in the report.
      rows: The models to compare.
      claims: Claims to test on the scores.
      table: Number of the paper's table, or "".
      equal_compute: Whether to give all rows as many FLOPs as the base model's
        run has, instead of as many steps.
      cross_evaluated: Whether to score all models on both NSP and SOP pairs,
        whatever they were trained on.
      fine_tuned: Whether to fine-tune the models on pairs of passages
        (`chronicles.pairs`), if they are trained on the chronicles.

    Raises:
      InputError: if a name is invalid, used twice, or refers to no row.
    """

    name: str
    title: str
    rows: tuple[StudyRow, ...]
    claims: tuple[StudyClaim, ...] = ()
    table: str = ""
    equal_compute: bool = False
    cross_evaluated: bool = False
    fine_tuned: bool = False

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
            names.append(row.name)
        if not names:
            raise InputError(f"study {self.name}: rows must not be empty")
        for claim in self.claims:
            self._check_claim(claim)
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

    def _check_claim(self, claim: StudyClaim) -> None:
        if not isinstance(claim.than, (str, float)):
            raise InputError(
                f"study {self.name}: than={claim.than!r} of a claim must be "
                "the name of a row, or a score"
            )
        for name, value, known in (
            ("kind", claim.kind, ("better", "equal")),
            ("score", claim.score, ("", *MARGINS)),
        ):
            if value not in known:
                raise InputError(
                    f"study {self.name}: {name}={value!r} of a claim must be "
                    f"one of {', '.join(map(repr, known))}"
                )

    def _check_row(self, name: str, names: Sequence[str]) -> None:
        if name not in names:
            rows = ", ".join(map(repr, names)) or "none"
            raise InputError(
                f"study {self.name}: unknown row {name!r}, known rows: {rows}"
            )

    def with_rows(self, *names: str) -> Study:
        """Returns the study with some of its rows and the claims about them.

        Raises:
          InputError: if there is no such row.
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
