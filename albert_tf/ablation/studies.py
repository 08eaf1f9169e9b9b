"""The paper's studies as data, with its numbers (arXiv:1909.11942v6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.data_config import SentenceOrder

# Scores of a pretrained model. "nsp_accuracy" is that of its sentence-order
# head on pairs made for NSP, whatever the head was trained on.
MLM_LOSS, MLM = "mlm_loss", "mlm_accuracy"
SOP, NSP = "sop_accuracy", "nsp_accuracy"
DOWNSTREAM = "downstream_accuracy"


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table: a model, and what the paper has for its counterpart.

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
    paper: str
    paper_scores: Mapping[str, float]
    values: Mapping[str, str | float] = dataclasses.field(default_factory=dict)
    factors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    sentence_order: SentenceOrder = "sop"
    init_from: str | None = None

    def architecture(self, base: AlbertConfig) -> AlbertConfig:
        """Returns the row's model."""
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

    def learning_rate(self, base: float) -> float:
        """Returns the row's rate: lower for wide models (arXiv:2203.03466).

        At the base model's, one twice as wide stays on the plateau.
        """
        return base / max(1, self.factors.get("hidden_size", 1))


@dataclasses.dataclass(frozen=True)
class Claim:
    """Something that the paper's table shows, to be judged on ours.

    Attributes:
      text: what the paper found.
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


# The paper's model trained with NSP has 52.0 % on sentence order.
CHANCE = 0.5
NEAR_CHANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Study:
    """A table of the paper.

    Attributes:
      name: of the study.
      table: number of the paper's table; "": it has none, only text.
      title: heading of the report.
      rows: the models.
      claims: what the paper found.
      length: steps of its runs, as a multiple of the scale's.
      equal_compute: whether all rows compute as much as the first.
    """

    name: str
    table: str
    title: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    length: float = 1.0
    equal_compute: bool = False


def _average(percent: float) -> dict[str, float]:
    return {"average": percent}


_NONE = {"sharing": "none"}


def _embedding(
    name: str, size: int, average: float, factor: float, sharing: str
) -> Row:
    words = "shared" if sharing == "all" else "not shared"
    return Row(
        f"{words}, E = {name}",
        f"{words}, E = {size}",
        _average(average),
        values={"sharing": sharing},
        factors={"embedding_size": factor},
    )


EMBEDDING_SIZE = Study(
    "embedding_size",
    "3",
    "Embedding size",
    (
        _embedding("H/4", 64, 81.3, 0.5, "none"),
        _embedding("H/2", 128, 81.7, 1, "none"),
        _embedding("H", 768, 82.3, 2, "none"),
        _embedding("H/4", 64, 79.0, 0.5, "all"),
        _embedding("H/2", 128, 80.1, 1, "all"),
        _embedding("H", 768, 79.8, 2, "all"),
    ),
    (
        Claim(
            "Without sharing, larger embeddings are better.",
            "not shared, E = H",
            "not shared, E = H/4",
        ),
        Claim(
            "With sharing, the smallest embeddings are worse.",
            "shared, E = H/2",
            "shared, E = H/4",
        ),
        Claim(
            "With sharing, embeddings as wide as the model are no better.",
            "shared, E = H",
            "shared, E = H/2",
            "no_better",
        ),
    ),
)

SHARING = Study(
    "sharing",
    "4",
    "What layers share",
    (
        Row("all", "all-shared, E = 128", _average(80.1)),
        Row(
            "attention",
            "shared-attention, E = 128",
            _average(81.7),
            values={"sharing": "attention"},
        ),
        Row(
            "ffn",
            "shared-FFN, E = 128",
            _average(80.2),
            values={"sharing": "ffn"},
        ),
        Row("none", "not shared, E = 128", _average(81.6), values=_NONE),
    ),
    (
        Claim("Sharing everything costs accuracy.", "none", "all"),
        Claim("Sharing only attention costs less.", "attention", "all"),
        Claim(
            "Sharing the feed-forward network costs more than sharing "
            "attention.",
            "attention",
            "ffn",
        ),
        Claim(
            "Not sharing attention either is no better.",
            "none",
            "attention",
            "no_better",
        ),
    ),
)

SENTENCE_ORDER = Study(
    "sentence_order",
    "5",
    "Sentence order",
    (
        Row(
            "none",
            "none",
            {MLM: 54.9, NSP: 52.4, SOP: 53.3, "average": 79.0},
            sentence_order="none",
        ),
        Row(
            "NSP",
            "NSP",
            {MLM: 54.5, NSP: 90.5, SOP: 52.0, "average": 79.2},
            sentence_order="nsp",
        ),
        Row("SOP", "SOP", {MLM: 54.0, NSP: 78.9, SOP: 86.5, "average": 80.1}),
    ),
    (
        Claim(
            "A model trained with SOP orders sentences.",
            "SOP",
            CHANCE + 2 * NEAR_CHANCE,
            "above",
            SOP,
        ),
        Claim(
            "It recognizes next sentences, too, which it was not trained on.",
            "SOP",
            CHANCE,
            "above",
            NSP,
        ),
        Claim(
            "A model trained with NSP recognizes next sentences.",
            "NSP",
            CHANCE + NEAR_CHANCE,
            "above",
            NSP,
        ),
        Claim(
            "It is near chance on the order of sentences.",
            "NSP",
            CHANCE,
            "near",
            SOP,
        ),
    ),
    length=2.0,
)

WALL_TIME = Study(
    "wall_time",
    "6",
    "Equal wall time",
    (
        Row(
            "BERT-style",
            "BERT-large, 34 h",
            _average(87.2),
            values=_NONE,
            factors={"embedding_size": 2},
        ),
        Row(
            "ALBERT, twice as wide",
            "ALBERT-xxlarge, 32 h",
            _average(88.7),
            factors={"hidden_size": 2},
        ),
    ),
    (
        Claim(
            "After the same time, a wider model that shares its weights is "
            "better.",
            "ALBERT, twice as wide",
            "BERT-style",
        ),
    ),
    length=2.0,
    equal_compute=True,
)

DROPOUT = Study(
    "dropout",
    "8",
    "Dropout",
    (
        Row(
            "with dropout",
            "xxlarge, with dropout",
            _average(90.4),
            values={
                "hidden_dropout_prob": 0.1,
                "attention_probs_dropout_prob": 0.1,
            },
        ),
        Row("without dropout", "xxlarge, without dropout", _average(90.7)),
    ),
    (
        Claim(
            "Without dropout the model is better.",
            "without dropout",
            "with dropout",
        ),
    ),
)


def _depth(name: str, average: float, before: str | None = None) -> Row:
    return Row(
        name,
        name,
        _average(average),
        values={"num_hidden_layers": int(name.split()[0])},
        init_from=before,
    )


DEPTH = Study(
    "depth",
    "11",
    "Depth, each from the shallower model",
    (
        _depth("1 layer", 52.9),
        _depth("3 layers", 71.2, "1 layer"),
        _depth("6 layers", 77.2, "3 layers"),
        _depth("12 layers", 81.5, "6 layers"),
    ),
    (
        Claim("3 layers are better than 1.", "3 layers", "1 layer"),
        Claim("6 layers are better than 3.", "6 layers", "3 layers"),
        Claim("12 layers are better than 6.", "12 layers", "6 layers"),
    ),
)

WIDTH = Study(
    "width",
    "12",
    "Width, and depth of the widest (with table 13)",
    (
        Row(
            "H/2",
            "H = 1024, 3 layers",
            _average(71.2),
            factors={"hidden_size": 0.5},
        ),
        Row("H", "H = 2048, 3 layers", _average(74.6)),
        Row(
            "2H",
            "H = 4096, 3 layers",
            _average(76.3),
            factors={"hidden_size": 2},
        ),
        Row(
            "2H, twice as deep",
            "H = 4096, 24 layers",
            _average(88.7),
            factors={"hidden_size": 2, "num_hidden_layers": 2},
        ),
    ),
    (
        Claim("Wider is better: H than H/2.", "H", "H/2"),
        Claim("Wider is better: 2H than H.", "2H", "H"),
        Claim(
            "The widest is no better with twice the depth (table 13).",
            "2H, twice as deep",
            "2H",
            "no_better",
        ),
    ),
)

GROUPS = Study(
    "groups",
    "",
    "Groups of layers that share weights",
    (
        Row("1 group", "", {}),
        Row("2 groups", "", {}, values={"num_hidden_groups": 2}),
        Row("4 groups", "", {}, values={"num_hidden_groups": 4}),
    ),
    (Claim("Smaller groups are better.", "4 groups", "1 group"),),
)

STUDIES: Mapping[str, Study] = {
    study.name: study
    for study in (
        EMBEDDING_SIZE,
        SHARING,
        SENTENCE_ORDER,
        WALL_TIME,
        DROPOUT,
        DEPTH,
        WIDTH,
        GROUPS,
    )
}
