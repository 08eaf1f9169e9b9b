"""Pretraining records from text files."""

from __future__ import annotations

import collections
import itertools
import json
import multiprocessing
import os
import pathlib
import pickle
import tempfile
from collections.abc import Collection, Iterable, Iterator
from concurrent import futures
from concurrent.futures import process
from typing import Any

import numpy as np
import tqdm

from albert_tf.errors import InputError
from albert_tf.files import check_not_input, check_space, local_path, sha256
from albert_tf.folders import (
    check_replaceable,
    replace_folder,
    temporary_folder,
)
from albert_tf.pretraining.block_worker import (
    SPLIT_TAGS,
    BlockRecords,
    BlockWorker,
    run_block,
    start_worker,
)
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.documents import (
    TextBlock,
    make_blocks,
    read_corpus,
)
from albert_tf.pretraining.heldout_records import HeldoutMasker
from albert_tf.pretraining.manifest import (
    MANIFEST_NAME,
    build_manifest,
    data_files,
    describe_split,
    find_manifest,
    is_shard,
    shard_names,
)
from albert_tf.pretraining.record_writer import ShardWriter
from albert_tf.pretraining.text_files import (
    TextPath,
    find_text_files,
    is_compressed,
    size_of,
)
from albert_tf.pretraining.units import make_units, text_bytes
from albert_tf.text.tokenizer_files import tokenizer_files

# One block's records of all passes are in memory at once, about twice the
# bytes of text and passes. Random next sentences come from the same block, so
# it should hold many documents: 256 KiB are 70 articles of Wikipedia.
_BLOCK_PASS_BYTES = 16 << 20
_MAX_BLOCK_BYTES = 1 << 20
_MIN_BLOCK_BYTES = 1 << 18

# More than a unit has: one file of 4 TB.
_MAX_BLOCKS = 1 << 24

# masking -> why a chunk makes no record, and what helps.
_SINGLE = {
    "dynamic": "tokens, which have no order; give longer documents",
    "static": "sentences; give one sentence a line, use text_format=prose, or "
    "one_sentence_chunks=random_next",
}

_SHUFFLE_TAG = 2  # beside the split tags 0 and 1 of the blocks' generators


def create_pretraining_data(
    config: PretrainingDataConfig, progress: bool = False
) -> dict[str, Any]:
    """Makes the output folder: TFRecord files, tokenizer and `manifest.json`.

    Text is streamed, so memory does not grow with it: each worker holds a block
    of about a megabyte and its records, and at the end a shard to shuffle.
    Equal settings, inputs and seeds give equal bytes for any number of workers.
    The folder appears when it is complete; a run that fails or is killed leaves
    no data set.

    Args:
      config: the settings.
      progress: show a progress bar on stderr.

    Returns:
      The manifest: settings, tokenizer, inputs, per split the files, counts,
      label counts, padding and effective masking rate, and the accuracy of
      always guessing the most frequent training label.

    Raises:
      InputError: an input or the output folder cannot be used, or a split
        would be empty.
      StorageError: the disk is full, or has less room than the records need.
    """
    files = find_text_files(config.input)
    folder = local_path(config.output)
    shards = {
        split: shard_names(split, number, config.compress)
        for split, number in config.shards_of_splits().items()
    }
    contents = tokenizer_files(config.tokenizer)
    new_files = {*contents, *itertools.chain(*shards.values())}
    needed = _least_bytes(config, files)
    with temporary_folder(folder, needed) as temporary:
        old = _replaced_files(folder, new_files, config.overwrite)
        for name in {*old, *new_files, MANIFEST_NAME}:
            check_not_input(folder / name, files)
        check_space(folder, needed)
        paths = {
            split: [temporary / name for name in names]
            for split, names in shards.items()
        }
        splits, label_counts, oddities = _write_splits(
            config, files, paths, progress
        )
        manifest = build_manifest(
            settings=config.settings(),
            tokenizer=config.tokenizer,
            inputs=_describe_inputs(files, config.num_workers),
            oddities=oddities,
            splits=splits,
            label_counts=label_counts,
        )
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        contents[MANIFEST_NAME] = text.encode()
        for name, content in contents.items():
            (temporary / name).write_bytes(content)
        # Again, as the folder may have changed since.
        old = _replaced_files(folder, new_files, config.overwrite)
        replace_folder(temporary, folder, obsolete=old)
    return manifest


def _least_bytes(config: PretrainingDataConfig, files: list[TextPath]) -> int:
    """Returns an estimate of the bytes to write, which is rather low.

    Masked records of English text have 1.7 times its bytes at 512 tokens, less
    what is dropped; ids have two bytes, and tokens of text about four. They are
    compressed only at the end.
    """
    text = sum(map(text_bytes, files))
    heldout = config.heldout_fraction
    train = config.dupe_factor if config.masking == "static" else 0.4
    return int(text * (heldout + train * (1 - heldout)))


def _replaced_files(
    folder: pathlib.Path, new_files: Collection[str], overwrite: bool
) -> list[str]:
    """Returns the files of the data set in a folder, which will be replaced.

    Args:
      folder: the output folder, which may exist.
      new_files: names of the files to write, without the manifest.
      overwrite: whether a finished data set may be replaced.

    Raises:
      InputError: the folder is a file; it is not empty, without `overwrite`; it
        cannot be replaced; or it has one of the new files, or another shard,
        that no manifest lists.
    """
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise InputError(f"output {folder}: is a file; name a folder")
    check_replaceable(folder)
    present = {path.name for path in folder.iterdir()}
    if present and not overwrite:
        finished = MANIFEST_NAME in present
        what = "a finished data set" if finished else "other files"
        raise InputError(
            f"output {folder}: already holds {what}; choose another folder, or "
            "give overwrite"
        )
    manifest = find_manifest(folder)
    old = data_files(manifest) if manifest else []
    ours = present.intersection(new_files).union(filter(is_shard, present))
    unlisted = ours.difference(old)
    if unlisted:
        raise InputError(
            f"output {folder}: {min(unlisted)} exists and belongs to no "
            "finished data set; move it away or choose another folder"
        )
    return [*old, MANIFEST_NAME]


def _write_splits(
    config: PretrainingDataConfig,
    files: list[TextPath],
    paths: dict[str, list[pathlib.Path]],
    progress: bool,
) -> tuple[
    dict[str, dict[str, Any]], dict[str, np.ndarray], collections.Counter[str]
]:
    """Writes all record files.

    Returns:
      By split its description for the manifest, and how often each id is a
      label, int64 `[vocab_size]`; and counts of what is odd in the text.
    """
    counts = {split: collections.Counter() for split in paths}
    oddities: collections.Counter[str] = collections.Counter()
    label_counts = {
        split: np.zeros(config.tokenizer.vocab_size, np.int64)
        for split in paths
    }
    writers = {
        split: ShardWriter(
            paths[split],
            config.compress,
            (config.seed, _SHUFFLE_TAG, SPLIT_TAGS[split]),
        )
        for split in paths
    }
    mask = HeldoutMasker(config) if config.masking == "dynamic" else None
    with _progress_bar(files, progress) as bar:
        for block in _make_records(config, files, oddities):
            if mask and block.split == "heldout":
                block = mask(block)
            counts[block.split].update(block.counts)
            oddities["control_pieces"] += block.counts["control_pieces"]
            label_counts[block.split] += block.label_counts
            for shard, (lengths, records) in enumerate(block.shards):
                writers[block.split].add(shard, lengths, records)
            bar.update(block.num_bytes)
    _check_counts(config, counts)
    descriptions = {}
    for split, writer in writers.items():
        shards = tqdm.tqdm(
            writer.finish(config.num_workers),
            f"{split} files",
            len(paths[split]),
            disable=not progress,
        )
        descriptions[split] = describe_split(
            list(shards),
            counts[split],
            config.passes(split),
            config.max_seq_length,
        )
    return descriptions, label_counts, oddities


def _make_records(
    config: PretrainingDataConfig,
    files: list[TextPath],
    oddities: collections.Counter[str],
) -> Iterator[BlockRecords]:
    """Yields the records of all blocks, in their order; counts oddities."""
    block_bytes = _BLOCK_PASS_BYTES // config.passes("train")
    blocks = itertools.chain.from_iterable(
        make_blocks(
            read_corpus(unit.files, config, oddities),
            max(_MIN_BLOCK_BYTES, min(_MAX_BLOCK_BYTES, block_bytes)),
            heldout_fraction=config.heldout_fraction,
            seed=config.seed,
            first_index=unit.number * _MAX_BLOCKS,
        )
        for unit in make_units(files)
    )
    if config.num_workers == 1:
        yield from map(BlockWorker(config), blocks)
        return
    with tempfile.NamedTemporaryFile() as file:
        # Not through the pipe of a new process: one that dies before it has
        # read more than a pipe holds would block this one for good.
        pickle.dump(config, file)
        file.flush()
        pool = futures.ProcessPoolExecutor(
            config.num_workers,
            # This process may have TensorFlow's threads, which do not survive
            # fork.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=start_worker,
            initargs=(file.name,),
        )
        try:
            yield from _run_blocks(pool, blocks, config.num_workers + 2)
        except process.BrokenProcessPool:
            raise RuntimeError(
                "a worker process died: it ran out of memory, was killed, or "
                "the script that started it lacks "
                '`if __name__ == "__main__":`'
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _run_blocks(
    pool: futures.Executor, blocks: Iterable[TextBlock], most: int
) -> Iterator[BlockRecords]:
    """Yields the records of blocks in order.

    At most `most` blocks are handed out: those that wait, or whose records do,
    are held in memory.
    """
    pending: collections.deque[futures.Future] = collections.deque()
    for block in blocks:
        pending.append(pool.submit(run_block, block))
        if len(pending) > most:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _check_counts(
    config: PretrainingDataConfig,
    counts: dict[str, collections.Counter[str]],
) -> None:
    """Checks that each split has records; the error says why one has none."""
    num_documents = sum(count["documents"] for count in counts.values())
    for split, count in counts.items():
        if count["instances"]:
            continue
        if num_documents == 0:
            raise InputError("input: no sentence has a token")
        if count["documents"] == 0:
            raise InputError(
                f"heldout_fraction={config.heldout_fraction} leaves none of "
                f"{num_documents} documents for the split {split}; change it, "
                "or seed"
            )
        raise InputError(
            f"the split {split} has no record: all {count['chunks']} chunks of "
            f"its text are single {_SINGLE[config.masking]}"
        )


def _describe_inputs(
    files: list[TextPath], num_threads: int
) -> list[dict[str, object]]:
    """Returns name, bytes and sha256 of each file.

    Local files are named by their paths below their common folder.
    """
    local = [
        path.absolute() for path in files if isinstance(path, pathlib.Path)
    ]
    base = os.path.commonpath([path.parent for path in local]) if local else ""
    with futures.ThreadPoolExecutor(num_threads) as pool:
        digests = list(pool.map(sha256, files))
    return [
        {
            "name": path
            if isinstance(path, str)
            else path.absolute().relative_to(base).as_posix(),
            "bytes": size_of(path),
            "sha256": digest,
        }
        for path, digest in zip(files, digests, strict=True)
    ]


def _progress_bar(files: list[TextPath], show: bool) -> tqdm.tqdm:
    """Returns a bar of bytes; the total is known if no file is compressed."""
    compressed = any(map(is_compressed, files))
    total = None if compressed else sum(map(size_of, files))
    return tqdm.tqdm(
        total=total, unit="B", unit_scale=True, disable=not show, desc="text"
    )
