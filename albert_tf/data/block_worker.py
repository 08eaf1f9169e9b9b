"""Creation of the records of blocks of documents, by a pool of workers.

This module does not import TensorFlow, so that workers start fast and need
little memory.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from typing import Any

import numpy as np

from albert_tf.array_ops import ArrayOps
from albert_tf.data.chunk_packing import ChunkRows, pack_chunks
from albert_tf.data.chunks import Chunks, cut_chunks, cut_joined
from albert_tf.data.data_config import MaskingConfig, PretrainingDataConfig
from albert_tf.data.documents import TextBlock
from albert_tf.data.masking import MaskedTokens, mask_words, num_predictions
from albert_tf.data.sentence_pairs import (
    PackedPairs,
    SentencePairs,
    draw_sentence_pairs,
    pack_pairs,
    split_at_first_boundary,
)
from albert_tf.data.tfrecords import (
    Ragged,
    frame_records,
    join_frames,
    serialize_examples,
)
from albert_tf.data.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)
from albert_tf.worker_pool import worker_pool

# Pairs that are masked at a time: enough to amortize NumPy's overhead per call,
# few enough that the arrays take megabytes.
_MASKING_BATCH = 2048

# Pairs of a block that are masked to measure the masking rate of training.
_SAMPLED_PAIRS = 256

# Upper bound of the documents of a block, which has about 1 MB of text.
_MAX_DOCUMENTS = 1 << 20

# Typical size of a task and its records.
_TASK_BYTES = 24 << 20

# Part of the seeds, so that the random streams of the splits differ.
SPLIT_TAGS = {"train": 0, "heldout": 1}

_Features = Mapping[str, Any]  # arguments of `serialize_examples`


@dataclasses.dataclass(frozen=True)
class BlockTask:
    """A block and the passes over it whose records are made together."""

    block: TextBlock
    passes: range

    @property
    def num_bytes(self) -> int:
        """Estimated size of the text and its records."""
        return self.block.num_bytes * (1 + 2 * len(self.passes))


@dataclasses.dataclass
class BlockRecords:
    """The records of a task, divided among shards, and their statistics.

    Attributes:
      index: number of the block in its split.
      split: "train" or "heldout".
      num_bytes: size of the text, or 0 if the task lacks the first pass.
      counts: statistics that are summed over blocks.
      label_counts: int64 `[vocab_size]`, how often each id is a label.
      shards: for each shard, the lengths of its records and the concatenated
        records, both with TFRecord framing.
      unmasked: for each shard, the features of text that `HeldoutMasker` is yet
        to make records of, which replaces `shards`.
    """

    index: int
    split: str
    num_bytes: int
    counts: collections.Counter[str]
    label_counts: np.ndarray
    shards: list[tuple[np.ndarray, bytes]] = dataclasses.field(
        default_factory=list
    )
    unmasked: list[dict[str, Ragged]] = dataclasses.field(default_factory=list)

    @property
    def oddities(self) -> collections.Counter[str]:
        """Counts of the `ODDITIES` that are found after reading the text."""
        return collections.Counter(control_pieces=self.counts["control_pieces"])


class BlockWorker:
    """Creates the records of blocks, in `num_shards` of each split."""

    def __init__(
        self, config: PretrainingDataConfig, num_shards: Mapping[str, int]
    ):
        self.config = config
        self.num_shards = num_shards
        tokenizer = config.tokenizer
        self.table = VocabularyTable.from_tokenizer(
            tokenizer, config.word_starts
        )
        # A "[SEP]" that is spelled out in text must not become a special token.
        self.tokenizer = (
            tokenizer.with_settings(match_special_tokens=False)
            if tokenizer.match_special_tokens
            else tokenizer
        )
        self.control_pieces = [
            *(tokenizer.pad_token, tokenizer.unk_token, tokenizer.cls_token),
            *(tokenizer.sep_token, tokenizer.mask_token),
        ]

    def __call__(self, task: BlockTask) -> BlockRecords:
        """Creates the records of a task.

        Randomness depends on (seed, split, block, pass) only. The text is
        counted in the first pass.
        """
        config, block = self.config, task.block
        num_shards = self.num_shards[block.split]
        documents = TokenizedDocuments.from_text(
            block.documents, self.tokenizer, block.index * _MAX_DOCUMENTS
        )
        seed = (config.seed, SPLIT_TAGS[block.split], block.index)
        is_first = task.passes.start == 0
        result = BlockRecords(
            block.index,
            block.split,
            block.num_bytes if is_first else 0,
            collections.Counter(),
            np.zeros(len(self.table.word_starts), np.int64),
        )
        if is_first:
            result.counts.update(
                documents=documents.num_documents,
                sentences=documents.num_sentences,
                tokens=len(documents.tokens),
                unknown_tokens=int(
                    np.count_nonzero(documents.tokens == self.tokenizer.unk_id)
                ),
                control_pieces=sum(
                    text.count(piece)
                    for text in map("\n".join, block.documents)
                    for piece in self.control_pieces
                ),
            )
        shards: list[list[bytes]] = [[] for _ in range(num_shards)]
        is_static = config.masking == "static"
        features_of_pass = (
            self._masked_features if is_static else self._text_features
        )
        for number in task.passes:
            rng = np.random.default_rng((*seed, number))
            for features in features_of_pass(documents, rng, result):
                number_of_records = len(next(iter(features.values())))
                shard_of_record = rng.integers(
                    num_shards, size=number_of_records
                )
                if block.split == "heldout" and not is_static:
                    result.unmasked = [
                        {
                            name: feature.select(shard_of_record == shard)
                            for name, feature in features.items()
                        }
                        for shard in range(num_shards)
                    ]
                    continue
                frames = frame_records(serialize_examples(features))
                for shard, frame in zip(shard_of_record, frames, strict=True):
                    shards[shard].append(frame)
        if not result.unmasked:
            result.shards = list(map(join_frames, shards))
        return result

    def _text_features(
        self,
        documents: TokenizedDocuments,
        rng: np.random.Generator,
        result: BlockRecords,
    ) -> Iterator[_Features]:
        """Yields features of unmasked chunks, or rows of them; counts them."""
        config, counts = self.config, result.counts
        rows: Chunks | ChunkRows
        if config.pack and result.split != "heldout":
            rows = pack_chunks(
                documents,
                self.table,
                rng,
                max_seq_length=config.max_seq_length,
                max_sequences=config.max_sequences_per_row,
                short_seq_prob=config.short_seq_prob,
            )
            chunks, first_chunks = rows.chunks, rows.row_starts[:-1]
            counts["sequences"] += len(chunks)
        else:
            cut = cut_joined if config.sentence_order == "none" else cut_chunks
            rows = chunks = cut(
                documents,
                self.table,
                rng,
                max_tokens=config.max_tokens,
                short_seq_prob=config.short_seq_prob,
            )
            first_chunks = range(len(chunks))
        is_pair = np.diff(chunks.boundaries.splits) > 0
        is_pair &= config.sentence_order != "none"
        # [CLS] A [SEP] or [CLS] A [SEP] B [SEP]
        lengths = chunks.ends - chunks.starts + 2 + is_pair
        counts.update(
            chunks=len(chunks),
            kept_tokens=len(documents.tokens),  # A chunk has every token.
            instances=len(first_chunks),
            pairs=int(is_pair.sum()),
            input_tokens=int(lengths.sum()),
        )
        # Held-out text is counted when it is masked.
        if len(chunks) and result.split != "heldout":
            masking: MaskingConfig = config
            quotas = num_predictions(config.max_seq_length, masking)[lengths]
            predictions = np.add.reduceat(quotas, first_chunks)
            total = np.minimum(predictions, masking.max_predictions_per_seq)
            share = self._masked_share(
                chunks.tokens,
                split_at_first_boundary(chunks, is_pair),
                quotas,
                rng.spawn(1)[0],  # Records must not depend on these draws.
            )
            counts["predictions"] += round(share * int(total.sum()))
        # Every token may be masked.
        result.label_counts += np.bincount(
            documents.tokens, minlength=len(result.label_counts)
        )
        yield rows.features()

    def _masked_share(
        self,
        tokens: np.ndarray,
        pairs: SentencePairs,
        quotas: np.ndarray,
        rng: np.random.Generator,
    ) -> float:
        """Returns the share of `quotas` that training masks, from a sample.

        It is small if many words are longer than the quota, as those are never
        masked.
        """
        sample = slice(None, None, -(-len(pairs) // _SAMPLED_PAIRS))
        masked = sum(
            int(np.count_nonzero(batch.weights))
            for _, _, batch in self._mask(tokens, pairs[sample], rng)
        )
        return masked / max(1, int(quotas[sample].sum()))

    def _mask(
        self,
        tokens: np.ndarray,
        pairs: SentencePairs,
        rng: np.random.Generator,
    ) -> Iterator[tuple[SentencePairs, PackedPairs, MaskedTokens]]:
        """Yields batches of pairs, packed and masked."""
        config, table = self.config, self.table
        ops = ArrayOps(rng)
        quotas = num_predictions(config.max_seq_length, config)
        for first in range(0, len(pairs), _MASKING_BATCH):
            batch = pairs[first : first + _MASKING_BATCH]
            packed = pack_pairs(
                ops, tokens, batch, table, config.max_seq_length
            )
            masked = mask_words(
                ops, packed, quotas[packed.lengths], table, config
            )
            yield batch, packed, masked

    def _masked_features(
        self,
        documents: TokenizedDocuments,
        rng: np.random.Generator,
        result: BlockRecords,
    ) -> Iterator[_Features]:
        """Yields features of masked pairs, as Google's; counts them."""
        config, counts = self.config, result.counts
        pairs, pair_counts = draw_sentence_pairs(
            documents,
            rng,
            max_seq_length=config.max_seq_length,
            short_seq_prob=config.short_seq_prob,
            sentence_order=config.sentence_order,
            one_sentence_chunks=config.one_sentence_chunks,
        )
        counts.update(pair_counts)
        for batch, packed, masked in self._mask(documents.tokens, pairs, rng):
            yield {
                "input_ids": masked.input_ids,
                "input_mask": packed.input_mask,
                "segment_ids": packed.segment_ids,
                "token_boundary": packed.token_boundary,
                "masked_lm_positions": masked.positions,
                "masked_lm_ids": masked.ids,
                "masked_lm_weights": masked.weights,
                "next_sentence_labels": batch.labels[:, None],
            }
            counts.update(
                instances=len(batch),
                pairs=int(np.count_nonzero(batch.b_lengths)),
                label_1=int(batch.labels.sum()),
                input_tokens=int(packed.lengths.sum()),
                kept_tokens=int(packed.is_text.sum()),
                predictions=int(masked.weights.sum()),
            )
            result.label_counts += np.bincount(
                masked.ids[masked.weights > 0],
                minlength=len(result.label_counts),
            )


def make_records(
    tasks: Iterable[BlockTask],
    config: PretrainingDataConfig,
    num_shards: Mapping[str, int],
) -> Iterator[BlockRecords]:
    """Yields the records of tasks in order, using `config.num_workers`.

    Raises:
      RuntimeError: if a worker process dies.
    """
    if config.num_workers == 1:
        worker = BlockWorker(config, num_shards)
        yield from map(worker, tasks)
        return
    with worker_pool(
        config.num_workers, _start_worker, config, num_shards
    ) as pool:
        yield from _run_tasks(pool, tasks, config.num_workers + 2)


def _run_tasks(
    pool: futures.Executor, tasks: Iterable[BlockTask], max_pending: int
) -> Iterator[BlockRecords]:
    """Yields the records of tasks in order.

    To bound memory, at most `max_pending` tasks of typical size are submitted
    whose records have not been yielded.
    """
    pending: collections.deque[tuple[int, futures.Future]] = collections.deque()
    num_bytes = 0
    for task in tasks:
        while pending and (
            len(pending) >= max_pending
            or num_bytes + task.num_bytes > max_pending * _TASK_BYTES
        ):
            size, future = pending.popleft()
            num_bytes -= size
            yield future.result()
        pending.append((task.num_bytes, pool.submit(_run_task, task)))
        num_bytes += task.num_bytes
    while pending:
        yield pending.popleft()[1].result()


_worker: BlockWorker | None = None


def _start_worker(
    config: PretrainingDataConfig, num_shards: Mapping[str, int]
) -> None:
    global _worker
    _worker = BlockWorker(config, num_shards)


def _run_task(task: BlockTask) -> BlockRecords:
    assert _worker is not None
    return _worker(task)
