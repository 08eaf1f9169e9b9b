"""Creation of pretraining records from text files."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import json
import pathlib
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent import futures
from typing import Any

import tqdm

from albert_tf.data.block_worker import BlockRecords, make_records
from albert_tf.data.creation_state import CreationState
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.manifest import (
    MANIFEST_NAME,
    build_manifest,
    describe_inputs,
    find_manifest,
    package_versions,
    serialize_manifest,
)
from albert_tf.data.mixture import create_mixture, parse_corpora
from albert_tf.data.order_shortcuts import add_shortcuts, check_packages
from albert_tf.data.shards import (
    FileGroup,
    Limits,
    data_files,
    group_files,
    is_shard,
    num_writers,
    plan_shards,
    shard_files,
    write_shard,
)
from albert_tf.data.text_files import (
    TextPath,
    find_text_files,
    is_compressed,
    size_of,
    version_of,
)
from albert_tf.errors import InputError, ReadError, counted
from albert_tf.files import check_not_input, check_space, local_path
from albert_tf.folders import (
    check_replaceable,
    job_file,
    replace_folder,
    temporary_folder,
)
from albert_tf.quiet_import import import_tensorflow, quiet_by_default
from albert_tf.settings import takes
from albert_tf.text.tokenizer_files import tokenizer_files


@takes(PretrainingDataConfig)
def create_pretraining_data(
    config: PretrainingDataConfig, *, progress: bool = False
) -> dict[str, Any]:
    """Creates a folder of TFRecord files, tokenizer and `manifest.json`.

    Text is streamed and records go through scratch files, so that memory is
    bounded. Equal settings, inputs and seeds give equal bytes for any number
    of workers. The folder appears when it is complete. The progress of an
    interrupted or killed run is kept in a hidden folder beside it; the next
    run with the same settings and inputs resumes from there and writes the
    same bytes.

    An input with several corpora, `NAME=WEIGHT:PATTERN,...`, creates a
    subfolder of this kind for each of them, and a manifest that lists them.

    Args:
      config: the settings.
      progress: show a progress bar on stderr.

    Returns:
      The manifest: settings, tokenizer, inputs and, for each split, its files,
      counts, label counts, padding and effective masking rate, the accuracy of
      always guessing the most frequent training label, and that of
      `measure_shortcuts` for the order of sentences. For several corpora,
      see `build_mixture_manifest`.

    Raises:
      InputError: if an input or the output folder cannot be used, or a split
        would be empty.
      StorageError: if the disk is full or too small for the records.
    """
    return _create(config, Limits(), progress)


def _create(
    config: PretrainingDataConfig, limits: Limits, progress: bool = False
) -> dict[str, Any]:
    folder = local_path(config.output)
    if corpora := parse_corpora(config.input):
        return create_mixture(
            config, corpora, lambda part: _create(part, limits, progress)
        )
    if config.sentence_order != "none":
        check_packages()
    files = find_text_files(config.input, config.data_dir)
    groups = list(group_files(files, limits))
    contents = tokenizer_files(config.tokenizer)
    num_shards, needed = plan_shards(config, groups, limits)
    name = _job_fingerprint(config, files, contents, num_shards, limits)
    with temporary_folder(folder, needed, name) as temporary:
        old = _replaced_files(folder, contents, config.overwrite)
        for file in {*old, *contents, MANIFEST_NAME}:
            check_not_input(folder / file, files)
        state = CreationState(
            temporary,
            name,
            num_shards,
            config.tokenizer.vocab_size,
            limits.save_seconds,
        )
        done = sum(file.stat().st_size for file in temporary.iterdir())
        check_space(folder, needed - done)
        inputs = _start_thread(describe_inputs, files)
        try:
            _write_text(config, groups, limits, state, progress)
            check_counts(config, state.counts)
        except ReadError:
            raise  # Possibly of a network; the same command resumes.
        except InputError:
            # The inputs or settings must change, so there is nothing to resume.
            job_file(temporary).unlink(missing_ok=True)
            raise
        _write_shards(config, limits, state, progress)
        manifest = build_manifest(
            config,
            inputs=inputs.result(),
            oddities=state.oddities,
            counts=state.counts,
            label_counts=state.label_counts,
            files=state.files,
        )
        add_shortcuts(manifest, temporary, config.tokenizer)
        text = serialize_manifest(manifest)
        for file, content in [*contents.items(), (MANIFEST_NAME, text)]:
            (temporary / file).write_bytes(content)
        # The folder may have changed in the meantime.
        old = _replaced_files(folder, contents, config.overwrite)
        job_file(temporary).unlink(missing_ok=True)
        replace_folder(temporary, folder, obsolete=old)
    return manifest


def _job_fingerprint(
    config: PretrainingDataConfig,
    files: list[TextPath],
    contents: Mapping[str, bytes],
    num_shards: Mapping[str, int],
    limits: Limits,
) -> str:
    """Returns a digest of everything that the records depend on."""
    values = [
        config.settings(),
        [(str(path), *version_of(path)) for path in files],
        {x: hashlib.sha256(y).hexdigest() for x, y in contents.items()},
        num_shards,
        dataclasses.asdict(limits),
        package_versions(),
    ]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _replaced_files(
    folder: pathlib.Path, new_files: Collection[str], overwrite: bool
) -> list[str]:
    """Returns the files of an existing data set that will be replaced.

    Raises:
      InputError: if the folder holds data and `overwrite` is False, or has
        files with the names of new ones, or shards, that no manifest lists.
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
            "set overwrite"
        )
    manifest = find_manifest(folder)
    old = data_files(manifest) if manifest else []
    names = present.intersection(new_files).union(filter(is_shard, present))
    unlisted = names.difference(old)
    if unlisted:
        raise InputError(
            f"output {folder}: {min(unlisted)} exists but is not part of a "
            "finished data set; move it away or choose another folder"
        )
    return [*old, MANIFEST_NAME]


def _write_text(
    config: PretrainingDataConfig,
    groups: list[FileGroup],
    limits: Limits,
    state: CreationState,
    progress: bool,
) -> None:
    """Writes the records of all text to scratch files."""
    if state.is_saved:
        print(
            f"{config.output}: resumes after {state.num_bytes:,} bytes of text",
            file=sys.stderr,
        )
    # Import TensorFlow, which takes seconds, while the workers start.
    tensorflow = threading.Thread(target=import_tensorflow)
    if (
        config.masks_heldout
        and config.num_workers > 1
        and "tensorflow" not in sys.modules
    ):
        tensorflow.start()
    files = [path for group in groups for path in group.files]
    tasks = state.read_tasks(groups, config, limits)
    num_shards = {x: len(y.paths) for x, y in state.scratch.items()}
    mask = heldout_masker(config)
    try:
        with _progress_bar(files, state.num_bytes, progress) as bar:
            for block in make_records(tasks, config, num_shards):
                state.add(mask(block))
                bar.update(block.num_bytes)
    finally:
        if tensorflow.is_alive():
            tensorflow.join()
    state.finish_text(len(groups))


def heldout_masker(
    config: PretrainingDataConfig,
) -> Callable[[BlockRecords], BlockRecords]:
    """Returns a function that masks the held-out blocks of dynamic masking.

    Importing TensorFlow is deferred to the first of these blocks.
    """
    if not config.masks_heldout:
        return lambda block: block

    @functools.cache
    def masker() -> Callable[[BlockRecords], BlockRecords]:
        with quiet_by_default():
            from albert_tf.data.dynamic_examples import HeldoutMasker

        return HeldoutMasker(config)

    return lambda block: masker()(block) if block.split == "heldout" else block


def _write_shards(
    config: PretrainingDataConfig,
    limits: Limits,
    state: CreationState,
    progress: bool,
) -> None:
    """Turns the scratch files into record files."""
    pool = futures.ThreadPoolExecutor(num_writers(config))
    shard_of: dict[futures.Future, tuple[str, int]] = {}
    try:
        for split, scratch in state.scratch.items():
            names = shard_files(config, split, scratch.sizes, limits)
            for shard, path in enumerate(scratch.paths):
                if shard not in state.files[split]:
                    future = pool.submit(
                        write_shard, path, names[shard], config, split, shard
                    )
                    shard_of[future] = split, shard
        for future in tqdm.tqdm(
            futures.as_completed(shard_of),
            "files",
            len(shard_of),
            disable=not progress,
        ):
            state.finish_shard(*shard_of[future], future.result())
    finally:
        pool.shutdown(cancel_futures=True)


# What to do about too few documents.
_DOCUMENT_ENDS = {
    "lines": "put a blank line between documents (a line is a sentence), use "
    "text_format=prose if paragraphs are separated by blank lines",
    "prose": "put two blank lines between documents, use text_format=lines if "
    "each line is a sentence and one blank line ends a document",
    "wikiextractor": "put each document between <doc ...> and </doc>",
    "jsonl": "put each document in a JSON object of its own",
}


def check_counts(
    config: PretrainingDataConfig, counts: dict[str, collections.Counter[str]]
) -> None:
    """Checks that each split has records, and the training split has pairs.

    Raises:
      InputError: if not; the message says why.
    """
    num_documents = sum(count["documents"] for count in counts.values())
    for split, count in counts.items():
        needs_pairs = split == "train" and config.sentence_order != "none"
        if count["pairs" if needs_pairs else "instances"]:
            continue
        if num_documents == 0:
            raise InputError(
                "input: no sentence has a token; name files with text"
            )
        if count["documents"] == 0:
            raise InputError(
                f"heldout_fraction={config.heldout_fraction} leaves none of "
                f"{counted(num_documents, 'document')} for the split {split}; "
                f"{_DOCUMENT_ENDS[config.text_format]}, or change "
                "heldout_fraction or the seed"
            )
        pair_up = ", one_sentence_chunks=random_next"
        raise InputError(
            f"the split {split} has no pair of segments: all {count['chunks']} "
            "chunks of its text are single sentences; put one sentence on each "
            "line, or use text_format=prose, a larger max_seq_length"
            f"{pair_up * (config.masking == 'static')} or sentence_order=none"
        )


def _start_thread(function: Callable, *arguments: object) -> futures.Future:
    """Calls a function in a daemon thread.

    An interrupted process would wait for the threads of an executor.
    """
    future: futures.Future = futures.Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _progress_bar(files: list[TextPath], done: int, show: bool) -> tqdm.tqdm:
    """Returns a bar of bytes, without a total if a file is compressed."""
    compressed = any(map(is_compressed, files))
    total = None if compressed else sum(map(size_of, files))
    return tqdm.tqdm(
        total=total,
        initial=done,
        unit="B",
        unit_scale=True,
        disable=not show,
        desc="text",
    )
