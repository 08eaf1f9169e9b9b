"""Creation of pretraining data by Apache Beam, on one machine or many.

The pipeline applies the functions of `create_pretraining_data` to groups of
files, blocks of documents and shards of records, so it writes the same bytes.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import pathlib
import shlex
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data.block_worker import BlockRecords, BlockTask, BlockWorker
from albert_tf.data.create_data import check_counts, heldout_masker
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.manifest import (
    MANIFEST_NAME,
    build_manifest,
    describe_inputs,
    read_manifest,
    serialize_manifest,
)
from albert_tf.data.mixture import create_mixture, parse_corpora
from albert_tf.data.order_shortcuts import add_shortcuts
from albert_tf.data.shards import (
    FileGroup,
    Limits,
    ScratchShards,
    group_files,
    plan_shards,
    read_tasks,
    scratch_bytes,
    shard_files,
    write_shard,
)
from albert_tf.data.text_files import find_text_files
from albert_tf.errors import InputError
from albert_tf.input_files import sha256
from albert_tf.optional_packages import import_package
from albert_tf.text.tokenizer_files import tokenizer_files

# Split and index.
_Shard = tuple[str, int]

# Index of the block and first pass, by which they are sorted; the lengths of
# the records, and the concatenated records.
_Frames = tuple[int, int, np.ndarray, bytes]

# Name -> counter, or array of counts of ids.
_Statistics = dict[str, Any]

_ODDITIES, _STATISTICS, _DIGESTS, _FILES = (
    *("oddities", "statistics", "digests", "files"),
)
_PARTIAL = ".partial"
_PURPOSE = "data of --runner"


def create_with_beam(
    config: PretrainingDataConfig, runner: str, options: str = ""
) -> dict[str, Any]:
    """Creates pretraining data by a pipeline of Apache Beam.

    Records, tokenizer and manifest, which is returned, are those of
    `create_pretraining_data`. Input and output may be on any file system that
    TensorFlow supports and all workers can access. The manifest is written
    last: data without it are not complete.

    Args:
      config: the settings, of which `num_workers` is ignored.
      runner: name of a runner, such as "DirectRunner".
      options: flags of the runner, as on a command line.

    Raises:
      InputError: if an input or the output folder cannot be used.
    """
    try:
        flags = [f"--runner={runner}", *shlex.split(options)]
    except ValueError as error:
        raise InputError(f"beam_options={options!r}: {error}") from None
    return _create(config, Limits(), flags)


def _create(
    config: PretrainingDataConfig, limits: Limits, flags: list[str]
) -> dict[str, Any]:
    beam = import_package("apache_beam", _PURPOSE)
    beam_options = import_package(
        "apache_beam.options.pipeline_options", _PURPOSE
    )
    output = os.fspath(config.output)
    corpora = parse_corpora(config.input)
    # A mixture without its manifest goes on after the corpora that it has.
    old = os.path.join(output, MANIFEST_NAME) if corpora else output
    if tf.io.gfile.exists(old) and (
        not tf.io.gfile.isdir(old) or tf.io.gfile.listdir(old)
    ):
        raise InputError(
            f"output {output}: exists and is not empty, and a pipeline does "
            "not replace data; name another folder, or remove it"
        )
    if corpora:
        return create_mixture(
            config, corpora, lambda part: _create(part, limits, flags)
        )
    files = find_text_files(config.input, config.data_dir)
    groups = list(group_files(files, limits))
    try:
        pipeline = beam.Pipeline(options=beam_options.PipelineOptions(flags))
    except (ImportError, ValueError) as error:  # No such runner, or flag.
        raise InputError(f"{' '.join(flags)}: {error}") from error
    num_shards, _ = plan_shards(config, groups, limits)
    no_sizes = [
        ((split, shard), 0)
        for split, number in num_shards.items()
        for shard in range(number)
    ]
    tf.io.gfile.makedirs(output)
    # Neither side inputs nor tagged outputs: Dask's runner computes those anew
    # for each task, and merges these.
    with pipeline:
        made = (
            pipeline
            | "groups" >> beam.Create(groups)
            | "spread groups" >> beam.Reshuffle()
            | "read" >> beam.FlatMap(_ReadTasks(config, limits))
            | "spread tasks" >> beam.Reshuffle()
            | "make records" >> beam.FlatMap(_MakeRecords(config, num_shards))
        )
        frames = made | "frames" >> beam.Filter(lambda x: x[0] != _STATISTICS)
        statistics = (
            made
            | "statistics" >> beam.Filter(lambda x: x[0] == _STATISTICS)
            | "add statistics" >> beam.CombinePerKey(_add)
        )
        sizes = (
            (
                frames | "sizes" >> beam.Map(_scratch_size),
                # Shards without a record become files as well.
                pipeline | "shards" >> beam.Create(no_sizes),
            )
            | "all shards" >> beam.Flatten()
            | "add sizes" >> beam.CombinePerKey(sum)
            | "to one" >> beam.Map(lambda size: (None, size))
            | "all sizes" >> beam.GroupByKey()
            | "to each shard" >> beam.FlatMap(_tell_each_shard)
        )
        written = (
            (frames, sizes)
            | "frames and sizes" >> beam.Flatten()
            | "by shard" >> beam.GroupByKey()
            | "write" >> beam.Map(_write_shard, config, num_shards, limits)
        )
        digests = (
            pipeline
            | "texts" >> beam.Create([os.fspath(path) for path in files])
            | "spread texts" >> beam.Reshuffle()
            | "digests" >> beam.Map(lambda x: (_DIGESTS, (x, sha256(x))))
        )
        _ = (
            (written, statistics, digests)
            | "results" >> beam.Flatten()
            | "to the end" >> beam.Map(lambda result: (None, result))
            | "all results" >> beam.GroupByKey()
            | "finish" >> beam.Map(_finish, config, files)
        )
    for name in tf.io.gfile.listdir(output):
        if name.endswith(_PARTIAL):  # Of a worker that was killed.
            tf.io.gfile.remove(os.path.join(output, name))
    return read_manifest(output)


@dataclasses.dataclass
class _ReadTasks:
    """Reads the tasks of a group of files, and then statistics."""

    config: PretrainingDataConfig
    limits: Limits

    def __call__(self, group: FileGroup) -> Iterator[BlockTask | _Statistics]:
        oddities: collections.Counter[str] = collections.Counter()
        yield from read_tasks(group, self.config, self.limits, oddities)
        yield {_ODDITIES: oddities}


@dataclasses.dataclass
class _MakeRecords:
    """Creates the records of a task, by shard, and statistics."""

    config: PretrainingDataConfig
    num_shards: Mapping[str, int]

    @functools.cached_property
    def worker(self) -> BlockWorker:
        return BlockWorker(self.config, self.num_shards)

    @functools.cached_property
    def mask(self) -> Callable[[BlockRecords], BlockRecords]:
        return heldout_masker(self.config)

    def __call__(
        self, task: BlockTask | _Statistics
    ) -> Iterator[tuple[_Shard | str, _Frames | _Statistics]]:
        if not isinstance(task, BlockTask):
            yield _STATISTICS, task
            return
        block = self.mask(self.worker(task))
        for shard, (lengths, records) in enumerate(block.shards):
            if len(lengths):
                frames = (block.index, task.passes.start, lengths, records)
                yield (block.split, shard), frames
        yield (
            _STATISTICS,
            {
                f"counts/{block.split}": block.counts,
                f"labels/{block.split}": block.label_counts,
                _ODDITIES: block.oddities,
            },
        )


def _scratch_size(element: tuple[_Shard, _Frames]) -> tuple[_Shard, int]:
    shard, (_, _, lengths, records) = element
    return shard, scratch_bytes(lengths, records)


def _add(statistics: Iterable[_Statistics]) -> _Statistics:
    total: _Statistics = {}
    for each in statistics:
        for name, counts in each.items():
            if name not in total:
                total[name] = counts.copy()
            elif isinstance(counts, collections.Counter):
                total[name].update(counts)
            else:
                total[name] = total[name] + counts
    return total


def _tell_each_shard(
    element: tuple[None, Iterable[tuple[_Shard, int]]],
) -> Iterator[tuple[_Shard, dict[_Shard, int]]]:
    """Yields each shard with the sizes of all, which its files' names need."""
    _, found = element
    sizes = dict(found)
    for shard in sizes:
        yield shard, sizes


def _write_shard(
    element: tuple[_Shard, Iterable[_Frames | dict[_Shard, int]]],
    config: PretrainingDataConfig,
    num_shards: Mapping[str, int],
    limits: Limits,
) -> tuple[str, tuple[_Shard, list[dict[str, Any]]]]:
    """Writes the record files of a shard and returns their descriptions."""
    (split, shard), grouped = element
    frames: list[_Frames] = []
    sizes: list[int] = []
    for value in grouped:
        if isinstance(value, dict):
            sizes = [value[split, x] for x in range(num_shards[split])]
        else:
            frames.append(value)
    names = shard_files(config, split, sizes, limits)[shard]
    ordered = sorted(frames, key=lambda frames: frames[:2])
    with tempfile.TemporaryDirectory() as folder:
        scratch = ScratchShards([pathlib.Path(folder, "scratch")], [0])
        for _, _, lengths, records in ordered:
            scratch.add(0, lengths, records)
        files = write_shard(scratch.paths[0], names, config, split, shard)
        for name in names:
            _copy(os.path.join(folder, name), config, name)
    return _FILES, ((split, shard), files)


def _copy(source: str, config: PretrainingDataConfig, name: str) -> None:
    """Copies a local file to the output folder atomically."""
    target = os.path.join(os.fspath(config.output), name)
    partial = f"{target}.{uuid.uuid4().hex}{_PARTIAL}"
    tf.io.gfile.copy(source, partial)
    tf.io.gfile.rename(partial, target, overwrite=True)


def _finish(
    element: tuple[None, Iterable[tuple[str, Any]]],
    config: PretrainingDataConfig,
    files: list[Any],
) -> None:
    """Writes the tokenizer and, last, the manifest."""
    results = collections.defaultdict(list)
    for name, value in element[1]:
        results[name].append(value)
    (statistics,) = results[_STATISTICS]
    digests = dict(results[_DIGESTS])
    written = results[_FILES]
    splits = sorted({split for (split, _), _ in written}, reverse=True)
    counts = {
        x: statistics.get(f"counts/{x}", collections.Counter()) for x in splits
    }
    check_counts(config, counts)
    manifest = build_manifest(
        config,
        inputs=describe_inputs(files, lambda path: digests[os.fspath(path)]),
        oddities=statistics[_ODDITIES],
        counts=counts,
        label_counts={x: statistics[f"labels/{x}"] for x in splits},
        files={
            x: {shard: found for (y, shard), found in written if x == y}
            for x in splits
        },
    )
    add_shortcuts(manifest, config.output, config.tokenizer)
    contents = tokenizer_files(config.tokenizer)
    for name, content in [
        *contents.items(),
        (MANIFEST_NAME, serialize_manifest(manifest)),
    ]:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            _copy(file.name, config, name)
