"""The studies of the paper, with its scores (arXiv:1909.11942v6)."""

from __future__ import annotations

from collections.abc import Mapping

from albert_tf.ablation.study import (
    CHANCE,
    DOWNSTREAM,
    MLM,
    NSP,
    SOP,
    Study,
    StudyClaim,
    StudyRow,
)


def _average(percent: float) -> dict[str, float]:
    return {"average": percent}


_NONE = {"sharing": "none"}


def _embedding(
    name: str, size: int, average: float, factor: float, sharing: str
) -> StudyRow:
    words = "shared" if sharing == "all" else "not shared"
    return StudyRow(
        f"{words}, E = {name}",
        f"{words}, E = {size}",
        _average(average),
        values={"sharing": sharing},
        factors={"embedding_size": factor},
    )


EMBEDDING_SIZE = Study(
    name="embedding_size",
    table="3",
    title="Embedding size",
    rows=(
        _embedding("H/4", 64, 81.3, 0.5, "none"),
        _embedding("H/2", 128, 81.7, 1, "none"),
        _embedding("H", 768, 82.3, 2, "none"),
        _embedding("H/4", 64, 79.0, 0.5, "all"),
        _embedding("H/2", 128, 80.1, 1, "all"),
        _embedding("H", 768, 79.8, 2, "all"),
    ),
    claims=(
        StudyClaim(
            "Without sharing, larger embeddings are better.",
            "not shared, E = H",
            "not shared, E = H/4",
        ),
        StudyClaim(
            "With sharing, the smallest embeddings are worse.",
            "shared, E = H/2",
            "shared, E = H/4",
        ),
        StudyClaim(
            "With sharing, embeddings as wide as the model are not better than "
            "half as wide ones, but as good.",
            "shared, E = H",
            "shared, E = H/2",
            "equal",
        ),
    ),
)

SHARING = Study(
    name="sharing",
    table="4",
    title="What layers share",
    rows=(
        StudyRow("all", "all-shared, E = 128", _average(80.1)),
        StudyRow(
            "attention",
            "shared-attention, E = 128",
            _average(81.7),
            values={"sharing": "attention"},
        ),
        StudyRow(
            "ffn",
            "shared-FFN, E = 128",
            _average(80.2),
            values={"sharing": "ffn"},
        ),
        StudyRow("none", "not shared, E = 128", _average(81.6), values=_NONE),
    ),
    claims=(
        StudyClaim("Sharing everything costs accuracy.", "none", "all"),
        StudyClaim("Sharing only attention costs less.", "attention", "all"),
        StudyClaim(
            "Sharing the feed-forward network costs more than sharing "
            "attention.",
            "attention",
            "ffn",
        ),
        StudyClaim(
            "Sharing attention costs nothing: as good as sharing nothing.",
            "attention",
            "none",
            "equal",
        ),
    ),
)

SENTENCE_ORDER = Study(
    name="sentence_order",
    table="5",
    title="Sentence order",
    rows=(
        StudyRow(
            "none",
            "none",
            {MLM: 54.9, NSP: 52.4, SOP: 53.3, "average": 79.0},
            sentence_order="none",
        ),
        StudyRow(
            "NSP",
            "NSP",
            {MLM: 54.5, NSP: 90.5, SOP: 52.0, "average": 79.2},
            sentence_order="nsp",
        ),
        StudyRow(
            "SOP", "SOP", {MLM: 54.0, NSP: 78.9, SOP: 86.5, "average": 80.1}
        ),
    ),
    claims=(
        StudyClaim(
            "A model trained with SOP orders sentences.",
            "SOP",
            CHANCE,
            score=SOP,
        ),
        StudyClaim(
            "It also recognizes next sentences, which it was not trained on.",
            "SOP",
            CHANCE,
            score=NSP,
        ),
        StudyClaim(
            "A model trained with NSP recognizes next sentences.",
            "NSP",
            CHANCE,
            score=NSP,
        ),
        StudyClaim(
            "It is at chance on the order of sentences.",
            "NSP",
            CHANCE,
            "equal",
            SOP,
        ),
        StudyClaim(
            "After fine-tuning, SOP is better than NSP.",
            "SOP",
            "NSP",
            score=DOWNSTREAM,
        ),
        StudyClaim(
            "After fine-tuning, SOP is better than no sentence loss.",
            "SOP",
            "none",
            score=DOWNSTREAM,
        ),
    ),
    cross_evaluated=True,
    fine_tuned=True,
)

WALL_TIME = Study(
    name="wall_time",
    table="6",
    title="Equal computation",
    rows=(
        StudyRow(
            "BERT-style",
            "BERT-large, 34 h",
            _average(87.2),
            values=_NONE,
            factors={"hidden_size": 0.5},
        ),
        StudyRow(
            "ALBERT, twice as wide", "ALBERT-xxlarge, 32 h", _average(88.7)
        ),
    ),
    claims=(
        StudyClaim(
            "After the same computation, a wider model that shares its "
            "weights is better.",
            "ALBERT, twice as wide",
            "BERT-style",
        ),
    ),
    equal_compute=True,
)

DROPOUT = Study(
    name="dropout",
    table="8",
    title="Dropout",
    rows=(
        StudyRow(
            "with dropout",
            "xxlarge, with dropout",
            _average(90.4),
            values={
                "hidden_dropout_prob": 0.1,
                "attention_probs_dropout_prob": 0.1,
            },
        ),
        StudyRow("without dropout", "xxlarge, without dropout", _average(90.7)),
    ),
    claims=(
        StudyClaim(
            "Without dropout the model is better.",
            "without dropout",
            "with dropout",
        ),
    ),
)


def _depth(name: str, average: float, *before: int) -> StudyRow:
    return StudyRow(
        name,
        name,
        _average(average),
        values={"num_hidden_layers": int(name.split()[0])},
        grown_from=tuple({"num_hidden_layers": depth} for depth in before),
    )


# The paper's deeper models were trained longer: each started from the trained
# shallower one.
DEPTH = Study(
    name="depth",
    table="11",
    title="Depth, grown from shallower models",
    rows=(
        _depth("1 layer", 52.9, 1, 1),
        _depth("3 layers", 71.2, 1, 3),
        _depth("6 layers", 77.2, 1, 3),
    ),
    claims=(
        StudyClaim("3 layers are better than 1.", "3 layers", "1 layer"),
        StudyClaim("6 layers are better than 3.", "6 layers", "3 layers"),
    ),
)

WIDTH = Study(
    name="width",
    table="12",
    title="Width, and depth of the widest (with table 13)",
    rows=(
        StudyRow(
            "H/2",
            "H = 1024, 3 layers",
            _average(71.2),
            factors={"hidden_size": 0.5},
        ),
        StudyRow("H", "H = 2048, 3 layers", _average(74.6)),
        StudyRow(
            "2H",
            "H = 4096, 3 layers",
            _average(76.3),
            factors={"hidden_size": 2},
        ),
        StudyRow(
            "2H, twice as deep",
            "H = 4096, 24 layers",
            _average(88.7),
            factors={"hidden_size": 2, "num_hidden_layers": 2},
        ),
    ),
    claims=(
        StudyClaim("Wider is better: H than H/2.", "H", "H/2"),
        StudyClaim("Wider is better: 2H than H.", "2H", "H"),
        StudyClaim(
            "Twice the depth of the widest is not better, but as good (table "
            "13).",
            "2H, twice as deep",
            "2H",
            "equal",
        ),
    ),
)

GROUPS = Study(
    name="groups",
    title="Groups of layers that share weights",
    rows=(
        StudyRow("1 group"),
        StudyRow("2 groups", values={"num_hidden_groups": 2}),
    ),
    claims=(
        StudyClaim("Two groups are better than one.", "2 groups", "1 group"),
    ),
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
