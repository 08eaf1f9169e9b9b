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

from albert_tf.errors import InputError, import_package
from albert_tf.input_files import sha256
from albert_tf.pretraining.block_worker import (
    BlockRecords,
    BlockTask,
    BlockWorker,
)
from albert_tf.pretraining.create_data import check_counts, heldout_masker
from albert_tf.pretraining.creation_state import (
    ScratchShards,
    scratch_bytes,
    write_shard,
)
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.manifest import (
    MANIFEST_NAME,
    build_manifest,
    describe_inputs,
    read_manifest,
    serialize_manifest,
)
from albert_tf.pretraining.mixture import create_mixture, parse_corpora
from albert_tf.pretraining.order_shortcuts import add_shortcuts
from albert_tf.pretraining.shards import (
    FileGroup,
    Limits,
    group_files,
    plan_shards,
    read_tasks,
    shard_files,
)
from albert_tf.pretraining.text_files import find_text_files
from albert_tf.text.tokenizer_files import tokenizer_files

# Split and index.
_Shard = tuple[str, int]

# Index of the block and first pass, by which they are sorted; the lengths of
# the records, and the concatenated records.
_Frames = tuple[int, int, np.ndarray, bytes]

# Name -> counter, or array of counts of ids.
_Statistics = dict[str, Any]

_ODDITIES, _STATISTICS = "oddities", "statistics"
_PURPOSE = "data of --runner"


def create_with_beam(
    config: PretrainingDataConfig, runner: str, options: str = ""
) -> dict[str, Any]:
    """Creates pretraining data by a pipeline of Apache Beam.

    Records, tokenizer and manifest are those of `create_pretraining_data`.
    Input and output may be on any file system that TensorFlow supports and all
    workers can access. The manifest is written last: data without it are not
    complete.

    Args:
      config: the settings, of which `num_workers` is ignored.
      runner: name of a runner, such as "DirectRunner".
      options: flags of the runner, as on a command line.

    Returns:
      The manifest.

    Raises:
      InputError: If an input or the output folder cannot be used.
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
    if corpora := parse_corpora(config.input):
        return create_mixture(
            config, corpora, lambda part: _create(part, limits, flags)
        )
    files = find_text_files(config.input, config.data_dir)
    groups = list(group_files(files, limits))
    output = os.fspath(config.output)
    if tf.io.gfile.exists(output) and (
        not tf.io.gfile.isdir(output) or tf.io.gfile.listdir(output)
    ):
        raise InputError(
            f"output {output}: exists and is not empty, and a pipeline does "
            "not replace data; name another folder, or remove it"
        )
    num_shards, _ = plan_shards(config, groups, limits)
    tf.io.gfile.makedirs(output)
    with beam.Pipeline(options=beam_options.PipelineOptions(flags)) as pipeline:
        tasks = (
            pipeline
            | "groups" >> beam.Create(groups)
            | "spread groups" >> beam.Reshuffle()
            | "read"
            >> beam.FlatMap(_ReadTasks(config, limits)).with_outputs(
                _ODDITIES, main="tasks"
            )
        )
        made = (
            tasks["tasks"]
            | "spread tasks" >> beam.Reshuffle()
            | "make records"
            >> beam.FlatMap(_MakeRecords(config, num_shards)).with_outputs(
                _STATISTICS, main="frames"
            )
        )
        sizes = (
            made["frames"]
            | "sizes" >> beam.Map(_scratch_size)
            | "add sizes" >> beam.CombinePerKey(sum)
        )
        # Shards without a record become files as well.
        empty = pipeline | "shards" >> beam.Create(
            [
                ((split, shard), None)
                for split, number in num_shards.items()
                for shard in range(number)
            ]
        )
        written = (
            (made["frames"], empty)
            | "all shards" >> beam.Flatten()
            | "group" >> beam.GroupByKey()
            | "write"
            >> beam.Map(
                _write_shard,
                beam.pvalue.AsDict(sizes),
                config,
                num_shards,
                limits,
            )
        )
        statistics = (
            (made[_STATISTICS], tasks[_ODDITIES])
            | "all statistics" >> beam.Flatten()
            | "add statistics" >> beam.CombineGlobally(_add)
        )
        digests = (
            pipeline
            | "files" >> beam.Create([os.fspath(path) for path in files])
            | "spread files" >> beam.Reshuffle()
            | "digests" >> beam.Map(lambda path: (path, sha256(path)))
        )
        _ = (
            pipeline
            | "config" >> beam.Create([config])
            | "finish"
            >> beam.Map(
                _finish,
                beam.pvalue.AsSingleton(statistics),
                beam.pvalue.AsList(written),
                beam.pvalue.AsDict(digests),
                files,
            )
        )
    return read_manifest(output)


@dataclasses.dataclass
class _ReadTasks:
    """Reads the tasks of a group of files."""

    config: PretrainingDataConfig
    limits: Limits

    def __call__(self, group: FileGroup) -> Iterator[Any]:
        oddities: collections.Counter[str] = collections.Counter()
        yield from read_tasks(group, self.config, self.limits, oddities)
        yield _tagged(_ODDITIES, {_ODDITIES: oddities})


@dataclasses.dataclass
class _MakeRecords:
    """Creates the records of a task, for each shard, and statistics."""

    config: PretrainingDataConfig
    num_shards: Mapping[str, int]

    @functools.cached_property
    def worker(self) -> BlockWorker:
        return BlockWorker(self.config, self.num_shards)

    @functools.cached_property
    def mask(self) -> Callable[[BlockRecords], BlockRecords]:
        return heldout_masker(self.config)

    def __call__(self, task: BlockTask) -> Iterator[Any]:
        block = self.mask(self.worker(task))
        for shard, (lengths, records) in enumerate(block.shards):
            if len(lengths):
                frames = (block.index, task.passes.start, lengths, records)
                yield (block.split, shard), frames
        statistics = {
            f"counts/{block.split}": block.counts,
            f"labels/{block.split}": block.label_counts,
            _ODDITIES: block.oddities,
        }
        yield _tagged(_STATISTICS, statistics)


def _tagged(tag: str, value: object) -> Any:
    beam = import_package("apache_beam", _PURPOSE)
    return beam.pvalue.TaggedOutput(tag, value)


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


def _write_shard(
    element: tuple[_Shard, Iterable[_Frames | None]],
    sizes: Mapping[_Shard, int],
    config: PretrainingDataConfig,
    num_shards: Mapping[str, int],
    limits: Limits,
) -> tuple[_Shard, list[dict[str, Any]]]:
    """Writes the record files of a shard and returns their descriptions."""
    (split, shard), found = element
    sizes_of_split = [
        sizes.get((split, x), 0) for x in range(num_shards[split])
    ]
    names = shard_files(config, split, sizes_of_split, limits)[shard]
    ordered = sorted(filter(None, found), key=lambda frames: frames[:2])
    with tempfile.TemporaryDirectory() as folder:
        scratch = ScratchShards([pathlib.Path(folder, "scratch")], [0])
        for _, _, lengths, records in ordered:
            scratch.add(0, lengths, records)
        files = write_shard(scratch.paths[0], names, config, split, shard)
        for name in names:
            _copy(os.path.join(folder, name), config, name)
    return (split, shard), files


def _copy(source: str, config: PretrainingDataConfig, name: str) -> None:
    """Copies a local file to the output folder atomically."""
    target = os.path.join(os.fspath(config.output), name)
    partial = f"{target}.{uuid.uuid4().hex}.partial"
    tf.io.gfile.copy(source, partial)
    tf.io.gfile.rename(partial, target, overwrite=True)


def _finish(
    config: PretrainingDataConfig,
    statistics: _Statistics,
    written: list[tuple[_Shard, list[dict[str, Any]]]],
    digests: Mapping[str, str],
    files: list[Any],
) -> None:
    """Writes the tokenizer and, last, the manifest."""
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
