"""Analyze architectures, runs, data and trained models.

`analyze parameters [CONFIG...]` counts parameters by component, and compares
them with BERT and the paper's table 1. `analyze memory [CONFIG...]` estimates
the memory of a pretraining step on one device. `analyze run DIR...` prints the
scores and plots the curves of runs, finished or not. `analyze data PATH...`
describes pretraining records, and shows examples with their masks.

`analyze similarity MODEL...` measures how far each layer moves its input (the
paper's figure 1), and whether the last layer converges when it is applied
repeatedly. `analyze attention MODEL` shows what each head attends to in a text.

Examples:
  albert analyze run run --input=data --output=curves.png
  albert analyze similarity albert/albert-base-v2 --output=similarity.png
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from albert_tf.analysis.activation_memory import training_memory
from albert_tf.analysis.figures import has_picture_suffix
from albert_tf.analysis.parameters import BERT, parameter_table, plot_parameters
from albert_tf.cli.flags import CommandFlags
from albert_tf.config import AlbertConfig, named_config, parse_overrides
from albert_tf.errors import InputError
from albert_tf.files import check_not_input, is_remote
from albert_tf.pretrained_models import vocabulary_path
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import check_settings, described, setting
from albert_tf.tables import text_table
from albert_tf.training.config import Precision

_PARAMETERS, _MEMORY = "analyze parameters", "analyze memory"
_RUN, _DATA = "analyze run", "analyze data"
_SIMILARITY, _ATTENTION = "analyze similarity", "analyze attention"

_SUBJECTS = {
    x.removeprefix("analyze ")
    for x in (_PARAMETERS, _MEMORY, _RUN, _DATA, _SIMILARITY, _ATTENTION)
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalyzeFlags:
    """Flags of the analyses."""

    config_overrides: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata=described(
            "Fields to change in all configs, such as "
            "embedding_size=768,sharing=none. similarity: adds a model with "
            "random weights and the first model's config with these changes.",
            group=f"{_PARAMETERS}, {_MEMORY}, {_SIMILARITY}",
            parse=parse_overrides,
        ),
    )
    train_batch_size: int = setting(
        32, "Examples per step.", group=_MEMORY, bounds="[1, inf)"
    )
    max_seq_length: int = setting(
        128,
        "Tokens per example; longer texts are truncated.",
        group=f"{_MEMORY}, {_SIMILARITY}, {_ATTENTION}",
        bounds="[1, inf)",
    )
    max_predictions_per_seq: int = setting(
        20, "Masked positions per example.", group=_MEMORY, bounds="[1, inf)"
    )
    gradient_accumulation_steps: int = setting(
        1, "Micro-batches per step.", group=_MEMORY, bounds="[1, inf)"
    )
    rematerialize: bool = setting(
        False, "Store only the input of each block.", group=_MEMORY
    )
    precision: Precision = setting(
        "float32", "Precision of the computation.", group=_MEMORY
    )
    output: str | None = setting(
        None,
        "Plot to write (.png, .svg, .pdf): parameters by component, curves of "
        "runs over steps, wall time and tokens, distributions of the data, "
        "changes from layer to layer, or attention maps.",
        group="analyze parameters, run, data, similarity, attention",
    )
    input: str | None = setting(
        None,
        "run: folder of records, to compare with the scores of guessing. "
        "similarity: text files with one text per line, as patterns separated "
        "by commas; default: prose of Python's documentation.",
        group=f"{_RUN}, {_SIMILARITY}",
    )
    split: Literal["train", "heldout"] = setting(
        "train", "Split to read from folders of records.", group=_DATA
    )
    max_records: int = setting(
        100_000,
        "Number of records to measure, from the first; 0 for all.",
        group=_DATA,
        bounds="[0, inf)",
    )
    examples: int = setting(
        10, "Number of records to show.", group=_DATA, bounds="[0, 10000]"
    )
    spm_model_file: str | None = setting(
        None,
        "SentencePiece model or WordPiece vocab.txt, or albert_tiny_en, of "
        "records without a manifest, such as Google's.",
        group=_DATA,
    )
    max_texts: int = setting(
        32,
        "Number of texts to measure, from the first.",
        group=_SIMILARITY,
        bounds="[1, 100000]",
    )
    iterations: int = setting(
        48,
        "Total number of layer applications; after the model's layers, the "
        "last one is repeated.",
        group=_SIMILARITY,
        bounds="[0, 10000]",
    )
    text: str | None = setting(None, "Text to analyze.", group=_ATTENTION)
    pair: str | None = setting(None, "Second text of a pair.", group=_ATTENTION)
    layers: str | None = setting(
        None, "Layers to show, such as 1,6,12.", group=_ATTENTION
    )
    heads: str | None = setting(
        None, "Heads to show, such as 1,2.", group=_ATTENTION
    )
    json: bool = setting(
        False,
        "Print JSON instead of a table.",
        group=f"{_SIMILARITY}, {_ATTENTION}",
    )

    def __post_init__(self) -> None:
        check_settings(self)


CONFIGS = (AnalyzeFlags,)
TAKES_ARGUMENTS = True


def main(flags: CommandFlags) -> None:
    """Runs one analysis."""
    given = flags.build(AnalyzeFlags)
    subject, *names = flags.arguments or [""]
    _check_subject(subject, flags)
    if given.output is not None:
        _check_plot(given.output, names)
    if subject == "parameters":
        _print_parameters(_configs(names, given), given)
    elif subject == "memory":
        _print_memory(_configs(names, given), given)
    elif subject == "run" and names:
        _print_runs(names, given)
    elif subject == "data" and names:
        _print_data(names, given)
    elif subject == "similarity" and names:
        _print_similarity(names, given)
    elif subject == "attention" and len(names) == 1:
        _print_attention(names[0], given)
    else:
        asked = " ".join([subject, *names])
        raise InputError(
            (f"cannot analyze {asked!r}" if asked else "nothing to analyze")
            + "; use `albert analyze parameters [CONFIG...]`, `memory "
            "[CONFIG...]`, `run DIR...`, `data PATH...`, `similarity MODEL...` "
            "or `attention MODEL --text=...`"
        )
    if given.output is not None and not given.json:
        print(f"wrote {given.output}")


def _check_plot(output: str, names: Sequence[str]) -> None:
    """Checks before the analysis that its plot can be written."""
    is_picture = has_picture_suffix(output)
    if is_picture:
        # In the folder of a run, it is the picture of an earlier analysis.
        names = [name for name in names if not os.path.isdir(name)]
    # Names of architectures are not files.
    check_not_input(output, set(names) - set(AlbertConfig.official_names()))
    if not is_picture:
        raise InputError(
            f"output {output}: not the name of a picture; use .png, .pdf or "
            ".svg"
        )
    folder = os.path.dirname(os.path.abspath(output))
    if not is_remote(output) and not os.path.isdir(folder):
        raise InputError(f"output {output}: {folder} does not exist; create it")


def _check_subject(subject: str, flags: CommandFlags) -> None:
    """Raises an `InputError` if a flag of another analysis is given."""
    for name in flags.given(*flags.settings):
        group = flags.settings[name].description.group
        subjects = group.replace("analyze ", "").split(", ")
        if subject in _SUBJECTS and subject not in subjects:
            raise InputError(
                f"--{name} is not supported by `analyze {subject}`, but by "
                f"{', '.join(subjects)}"
            )


def _configs(
    names: Sequence[str], given: AnalyzeFlags
) -> dict[str, AlbertConfig]:
    """Returns the named configs; all official ones by default."""
    return {
        name: named_config(name).replace(**given.config_overrides)
        for name in names or AlbertConfig.official_names()
    }


def _print_runs(folders: Sequence[str], given: AnalyzeFlags) -> None:
    import_tensorflow()
    from albert_tf.analysis.curves import plot_runs
    from albert_tf.analysis.runs import read_runs, run_table
    from albert_tf.data.records import open_records

    known = {}
    if given.input is not None:
        known = open_records(given.input, "heldout").baselines()
    runs = read_runs(folders)
    print(run_table(runs, known), flush=True)
    if given.output is not None:
        plot_runs(runs, given.output, known)


def _print_data(paths: Sequence[str], given: AnalyzeFlags) -> None:
    import_tensorflow()
    from albert_tf.analysis.record_report import (
        examples_text,
        plot_records,
        record_table,
    )
    from albert_tf.analysis.records import analyze_records
    from albert_tf.data.records import open_records
    from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

    tokenizer = None
    if given.spm_model_file is not None:
        tokenizer = AlbertTokenizer.from_file(
            vocabulary_path(given.spm_model_file)
        )
    records = open_records(paths, given.split)
    if given.output is not None:
        files = [file.path for file in records.files[records.split]]
        check_not_input(given.output, files)
    statistics = analyze_records(
        records,
        max_records=given.max_records,
        num_examples=given.examples,
        tokenizer=tokenizer,
    )
    print(record_table(statistics), flush=True)
    if statistics.examples:
        print(f"\n{examples_text(statistics)}", flush=True)
    if given.output is not None:
        plot_records(statistics, given.output)


def _print_memory(
    configs: Mapping[str, AlbertConfig], given: AnalyzeFlags
) -> None:
    for name, config in configs.items():
        if given.max_seq_length > config.max_position_embeddings:
            raise InputError(
                f"max_seq_length={given.max_seq_length} exceeds the "
                f"max_position_embeddings={config.max_position_embeddings} of "
                f"{name}; add max_position_embeddings to --config_overrides"
            )
    columns = "MiB weights moments gradients activations working update total"
    rows: list[Sequence[str]] = [columns.split()]
    for name, config in configs.items():
        memory = training_memory(
            config,
            batch_size=given.train_batch_size,
            seq_length=given.max_seq_length,
            predictions=given.max_predictions_per_seq,
            precision=given.precision,
            rematerialize=given.rematerialize,
            accumulation=given.gradient_accumulation_steps,
        )
        sizes = (
            memory.weights,
            memory.slots,
            memory.gradients,
            memory.activations,
            memory.working,
            memory.update,
            memory.total,
        )
        rows.append([name, *(f"{size / 2**20:,.0f}" for size in sizes)])
    print(text_table(rows, left=1))


def _print_parameters(
    configs: Mapping[str, AlbertConfig], given: AnalyzeFlags
) -> None:
    configs = {**configs, **BERT}
    print(parameter_table(configs))
    if given.output is not None:
        plot_parameters(configs, given.output)


def _print_similarity(models: Sequence[str], given: AnalyzeFlags) -> None:
    texts = list(itertools.islice(_texts(given), given.max_texts))
    import_tensorflow()
    from albert_tf.analysis.similarity import analyze_similarity

    report = analyze_similarity(
        models,
        texts,
        iterations=given.iterations,
        max_seq_length=given.max_seq_length,
        # An empty mapping would add a model with the same config.
        config_overrides=given.config_overrides or None,
    )
    _print_report(report, given)


def _texts(given: AnalyzeFlags) -> Iterator[str]:
    """Yields the lines of --input, or paragraphs of Python's documentation."""
    from albert_tf.data.text_files import find_text_files, read_lines
    from albert_tf.demo.corpora import python_documents

    if given.input is None:
        for _, paragraphs in python_documents([]):
            yield from paragraphs
        return
    files = find_text_files(given.input)
    if given.output is not None:
        check_not_input(given.output, [str(path) for path in files])
    for path in files:
        for _, _, line in read_lines(path):
            if line.strip():
                yield line.strip()


def _print_attention(model: str, given: AnalyzeFlags) -> None:
    if given.text is None:
        raise InputError("analyze attention needs --text=...")
    layers = _numbers("layers", given.layers)
    heads = _numbers("heads", given.heads)
    import_tensorflow()
    from albert_tf.analysis.attention import analyze_attention

    report = analyze_attention(
        model,
        given.text,
        given.pair,
        layers=layers,
        heads=heads,
        max_seq_length=given.max_seq_length,
    )
    if report.cut:
        print(
            f"albert: the text is truncated to {len(report.tokens)} tokens, "
            f"{report.cut:,} fewer than it has; see --max_seq_length",
            file=sys.stderr,
        )
    _print_report(report, given)


def _numbers(name: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise InputError(
            f"--{name}={text} must be numbers separated by commas"
        ) from None


def _print_report(report: Any, given: AnalyzeFlags) -> None:
    """Prints a report and plots it if --output is given."""
    text = json.dumps(report.to_dict()) if given.json else report.table()
    print(text, flush=True)
    if given.output is not None:
        report.plot(given.output)
