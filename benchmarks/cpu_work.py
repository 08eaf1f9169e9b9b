"""Workloads of `cpu_speed.py` and their inputs."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import itertools
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.models.flops import encoder_flops, pretraining_step_flops
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.text.tokenizer_json import TOKENIZER_JSON, tokenizer_json

KINDS = ("rate", "imports", "forward", "step", "text", "finetune")
# Kinds without a model, whose outputs are not compared.
UNCOMPARED = ("rate", "imports")
PARTS = (
    "rate",
    "forward",
    "step",
    "text",
    "finetune",
    "embed",
    "start",
    "memory",
    "growth",
)
_GROWTH_SYSTEMS = (
    "albert_tf_float32",
    "albert_tf_bfloat16",
    "huggingface_float32",
    "huggingface_bfloat16",
)
_OFFICIAL = {"base": "albert_base_v2", "tiny": "albert_tiny"}
_PREDICTIONS = 20
_LONGEST_TEXT = 512


@dataclasses.dataclass(frozen=True)
class Work:
    """A workload, which has its own table in the report.

    Attributes:
      part: Section of the report, from `PARTS`.
      kind: What a system does, from `KINDS`.
      model: Name of the architecture, see `config_of`.
      case: "BATCHxLENGTH", or the name of a data set.
      texts: Number of texts of the data set.
      systems: The only systems that are measured; () for all that can.
    """

    part: str
    kind: str
    model: str = "base"
    case: str = ""
    texts: int = 0
    systems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name for `--work`."""
        kind = self.kind if self.part in ("start", "memory") else ""
        return "/".join(
            x for x in (self.part, kind, self.model, self.case) if x
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Batch size and sequence length."""
        batch, length = self.case.split("x")
        return int(batch), int(length)


def config_of(model: str) -> AlbertConfig:
    """Returns an architecture without dropout.

    Args:
      model: "base", "tiny" or "micro" (for tests), or "base" with another
        depth or width, such as "base-depth48" and "base-width4096".
    """
    no_dropout = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    if model == "micro":
        return AlbertConfig(
            vocab_size=200,
            embedding_size=16,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=256,
            max_position_embeddings=64,
            **no_dropout,
        )
    name, _, change = model.partition("-")
    config = AlbertConfig.from_official(_OFFICIAL[name], **no_dropout)
    if change.startswith("depth"):
        return config.replace(num_hidden_layers=int(change[5:]))
    if change.startswith("width"):
        width = int(change[5:])
        return config.replace(
            hidden_size=width,
            intermediate_size=4 * width,
            num_attention_heads=width // 64,
        )
    return config


def all_work(texts: int, reviews: int, examples: int) -> list[Work]:
    """Returns all workloads, in the order in which they are measured.

    Args:
      texts: Number of texts or pairs of a data set; a quarter of it for IMDb.
      reviews: Number of IMDb's reviews to embed.
      examples: Number of SST-2's examples to fine-tune on.
    """
    forward = [
        *(("base", x) for x in ("1x16", "1x128", "1x512", "8x128", "8x512")),
        *(("tiny", x) for x in ("1x16", "1x128")),
    ]
    start = [("forward", "base", "1x128"), ("step", "base", "8x128")]
    memory = [("forward", "base", "8x512"), ("step", "base", "8x128")]
    growth = [
        *((f"base-depth{x}", "1x128") for x in (6, 12, 24, 48)),
        *(("base", f"4x{x}") for x in (64, 128, 256, 512)),
        *(("base", f"{x}x128") for x in (1, 2, 8, 16, 32, 64)),
        *((f"base-width{x}", "1x128") for x in (768, 1024, 2048, 4096)),
    ]
    return [
        Work("rate", "rate", "", "2048"),
        Work("rate", "rate", "", "4096"),
        *(Work("forward", "forward", *x) for x in forward),
        Work("step", "step", "base", "8x128"),
        Work("step", "step", "tiny", "64x64"),
        Work("text", "text", "base", "sst2", texts),
        Work("text", "text", "base", "mrpc", texts),
        Work("text", "text", "base", "imdb", max(1, texts // 4)),
        Work("finetune", "finetune", "base", "sst2", examples),
        Work("finetune", "finetune", "tiny", "sst2", examples),
        Work("embed", "text", "base", "imdb", reviews),
        Work("start", "imports", ""),
        *(Work("start", *x) for x in start),
        *(Work("memory", *x) for x in memory),
        *(
            Work("growth", "forward", *x, systems=_GROWTH_SYSTEMS)
            for x in growth
        ),
    ]


def short_work() -> list[Work]:
    """Returns a small workload of every kind."""
    return [
        Work("rate", "rate", "", "64"),
        Work("forward", "forward", "micro", "2x16"),
        Work("step", "step", "micro", "2x32"),
        Work("text", "text", "micro", "sentences", 6),
        Work("finetune", "finetune", "micro", "sentences", 64),
        Work("start", "forward", "micro", "2x16"),
        Work("memory", "forward", "micro", "2x16"),
        Work("growth", "forward", "micro", "4x16"),
    ]


def select(work: list[Work], patterns: str) -> list[Work]:
    """Selects workloads by names, or by their beginnings up to a slash."""
    wanted = [x for x in patterns.split(",") if x]
    for pattern in wanted:
        if not any(_below(w.name, pattern) for w in work):
            raise SystemExit(
                f"--work: {pattern!r} must be one of\n  "
                + "\n  ".join(w.name for w in work)
            )
    return [
        w for w in work if not wanted or any(_below(w.name, p) for p in wanted)
    ]


def _below(name: str, pattern: str) -> bool:
    return f"{name}/".startswith(f"{pattern}/")


def flops(work: Work) -> float | None:
    """Counts the FLOPs of matrix products; None for texts."""
    if work.kind not in ("forward", "step"):
        return None
    config = config_of(work.model)
    batch, length = work.shape
    if work.kind == "step":
        return batch * pretraining_step_flops(config, length, _PREDICTIONS)
    return batch * encoder_flops(config, length, length)


def text_tokenizer(vocabulary: str) -> AlbertTokenizer:
    """Returns the models' tokenizer, with the settings of transformers 5."""
    content = pathlib.Path(vocabulary).read_bytes()
    return AlbertTokenizer(content, replace_latex_quotes=True)


def inputs_of(
    work: Work, data: pathlib.Path, vocabulary: str
) -> dict[str, Any]:
    """Returns the inputs of a workload: arrays and other values by name.

    Args:
      work: The workload.
      data: Folder of the data sets.
      vocabulary: Path of the SentencePiece model, or "".

    Raises:
      FileNotFoundError: if the data set does not exist.
    """
    if work.kind == "rate":
        return {"size": int(work.case)}
    if work.kind == "imports":
        return {}
    if work.kind in ("text", "finetune"):
        longest = config_of(work.model).max_position_embeddings
        return {
            **_texts(work, data, vocabulary),
            "batch": 32,
            "length": min(_LONGEST_TEXT, longest),
        }
    batch, length = work.shape
    return {
        "batch": batch,
        **random_batch(config_of(work.model), batch, length),
    }


def random_batch(
    config: AlbertConfig, batch: int, length: int
) -> dict[str, np.ndarray]:
    """Returns a random pretraining batch without padding."""
    rng = np.random.default_rng(0)
    shape = (batch, length)
    ids = rng.integers(5, config.vocab_size, shape, dtype="int32")
    types = np.zeros(shape, "int32")
    types[:, length // 2 :] = 1
    # Each row picks its own positions, in order, never [CLS].
    order = rng.random((batch, length - 1)).argsort(axis=1)
    positions = np.sort(order[:, :_PREDICTIONS], axis=1) + 1
    return {
        "input_word_ids": ids,
        "input_mask": np.ones(shape, "int32"),
        "input_type_ids": types,
        "masked_lm_positions": positions.astype("int32"),
        "masked_lm_ids": np.take_along_axis(ids, positions, axis=1),
        "masked_lm_weights": np.ones(positions.shape, "float32"),
        "sentence_order_labels": rng.integers(0, 2, batch, dtype="int32"),
    }


def _texts(work, data, vocabulary) -> dict[str, Any]:
    rows = itertools.islice(_rows(work, data), work.texts)
    if vocabulary:
        rows = _of_equal_ids(list(rows), vocabulary)
    rows = list(rows)
    texts: dict[str, Any] = {"texts": [row[0] for row in rows]}
    if len(rows[0]) == 3:
        texts["pairs"] = [row[1] for row in rows]
    if work.kind == "finetune":
        texts["labels"] = [int(row[-1]) for row in rows]
    return texts


def _rows(work, data) -> Iterator[tuple[str, ...]]:
    """Yields texts or pairs of texts, with their class."""
    case = work.case
    if case == "sentences":
        for number, words in enumerate(itertools.cycle(SENTENCES)):
            yield " ".join([words] * (number % 3 + 1)), str(number % 2)
    elif case == "sst2":
        split = "train" if work.kind == "finetune" else "dev"
        for row in _table(data / "glue" / "SST-2" / f"{split}.tsv"):
            yield row["sentence"], row["label"]
    elif case == "mrpc":
        for row in _table(data / "glue" / "MRPC" / "dev.tsv"):
            yield row["#1 String"], row["#2 String"], row["Quality"]
    elif case == "imdb":
        for row in _table(data / "imdb" / "test.tsv.gz"):
            yield row["text"], row["label"]


def _of_equal_ids(rows, vocabulary) -> Iterator[tuple[str, ...]]:
    """Yields the rows for which Hugging Face's tokenizer returns our ids.

    Of two segmentations with equal scores, such as "22 2" and "2 22", the
    `tokenizers` library may choose the other one: in 36 of 39,421 texts of the
    data sets.
    """
    import transformers

    ours = text_tokenizer(vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        files = {**tokenizer_files(ours), TOKENIZER_JSON: tokenizer_json(ours)}
        for name, content in files.items():
            (pathlib.Path(folder) / name).write_bytes(content)
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for row in rows:
        *texts, _ = row
        ids = theirs(texts, add_special_tokens=False)["input_ids"]
        if ids == [list(x) for x in ours.encode(texts)]:
            yield row


def _table(path: pathlib.Path) -> Iterator[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


SENTENCES = (
    "the film is a long and gentle walk through a city at night",
    "nobody in this story ever says what he wants",
    "a good plot lost in bad music",
    "they sing and it is over before you notice",
)
