"""Numbers of architectures, runs, data and trained models.

`analyze parameters [CONFIG...]` counts weights by component, beside those of
BERT and of the paper's table 1. `analyze memory [CONFIG...]` says what a
pretraining step needs on one device. `analyze run DIR...` prints scores and
draws curves of runs, which may still be going on. `analyze data PATH...`
describes pretraining records, and shows some with their masks.

`analyze similarity MODEL...` measures how far each layer moves its input (the
paper's figure 1), and whether the last layer comes to rest when it is applied
further. `analyze attention MODEL` shows what each head attends to in a text.

Examples:
  albert analyze run run --input=data --output=curves.png
  albert analyze similarity albert/albert-base-v2 --output=similarity.png
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from albert_tf.analysis.activation_memory import training_memory
from albert_tf.analysis.parameters import (
    BERT,
    parameter_table,
    plot_parameters,
)
from albert_tf.cli.flags import CommandFlags
from albert_tf.config import AlbertConfig, named_config, parse_overrides
from albert_tf.errors import InputError
from albert_tf.files import check_not_input
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import check_settings, described, setting
from albert_tf.training.config import Precision

_PARAMETERS, _MEMORY = "analyze parameters", "analyze memory"
_RUN, _DATA = "analyze run", "analyze data"
_SIMILARITY, _ATTENTION = "analyze similarity", "analyze attention"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalyzeFlags:
    """Flags of the analyses."""

    config_overrides: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata=described(
            "Fields of all configs to change, such as "
            "embedding_size=768,sharing=none. similarity: adds a model with "
            "random weights, the first one's architecture with these changes.",
            group=f"{_PARAMETERS}, {_MEMORY}, {_SIMILARITY}",
            parse=parse_overrides,
        ),
    )
    train_batch_size: int = setting(
        32, "Examples of a step.", group=_MEMORY, bounds="[1, inf)"
    )
    max_seq_length: int = setting(
        128,
        "Tokens of an example, or read of a text.",
        group=f"{_MEMORY}, {_SIMILARITY}, {_ATTENTION}",
        bounds="[1, inf)",
    )
    max_predictions_per_seq: int = setting(
        20, "Masked positions of an example.", group=_MEMORY, bounds="[1, inf)"
    )
    gradient_accumulation_steps: int = setting(
        1, "Micro-batches of a step.", group=_MEMORY, bounds="[1, inf)"
    )
    rematerialize: bool = setting(
        False, "Keep only the input of each block.", group=_MEMORY
    )
    precision: Precision = setting(
        "float32", "Precision of the computation.", group=_MEMORY
    )
    output: str | None = setting(
        None,
        "Picture to draw (.png, .svg, .pdf): components of parameters, curves "
        "of runs over steps, wall time and tokens, distributions of data, "
        "changes from layer to layer, or maps of attention.",
        group="analyze parameters, run, data, similarity, attention",
    )
    input: str | None = setting(
        None,
        "run: folder of records, to show what guessing would score on it as "
        "well. similarity: text files with a text a line, as patterns "
        "separated by commas; without, prose of Python's documentation.",
        group=f"{_RUN}, {_SIMILARITY}",
    )
    split: Literal["train", "heldout"] = setting(
        "train", "Split of folders of records.", group=_DATA
    )
    max_records: int = setting(
        100_000,
        "Only the first so many records are measured; 0 for all.",
        group=_DATA,
        bounds="[0, inf)",
    )
    examples: int = setting(
        10, "Records to show.", group=_DATA, bounds="[0, 10000]"
    )
    spm_model_file: str | None = setting(
        None,
        "SentencePiece model, or a WordPiece vocab.txt, of records without a "
        "manifest, such as Google's.",
        group=_DATA,
    )
    max_texts: int = setting(
        32,
        "Only the first so many texts are measured.",
        group=_SIMILARITY,
        bounds="[1, 100000]",
    )
    iterations: int = setting(
        48,
        "How often a layer is applied in all: beyond the layers of the model, "
        "the last one is again.",
        group=_SIMILARITY,
        bounds="[0, 10000]",
    )
    text: str | None = setting(None, "Text to attend to.", group=_ATTENTION)
    pair: str | None = setting(
        None, "A second text, for a pair.", group=_ATTENTION
    )
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


def _configs(
    names: Sequence[str], given: AnalyzeFlags
) -> dict[str, AlbertConfig]:
    """Returns the named architectures; all official ones if none is named."""
    return {
        name: named_config(name).replace(**given.config_overrides)
        for name in names or AlbertConfig.official_names()
    }


def _print_runs(folders: Sequence[str], given: AnalyzeFlags) -> None:
    if given.output is not None:
        check_not_input(given.output, folders)
    # Imported here: matplotlib and TensorFlow take seconds.
    import_tensorflow()
    from albert_tf.analysis.curves import plot_runs
    from albert_tf.analysis.runs import read_runs, run_table
    from albert_tf.pretraining.records import open_records

    known = {}
    if given.input is not None:
        known = open_records(given.input, "heldout").baselines()
    runs = read_runs(folders)
    print(run_table(runs, known), flush=True)
    if given.output is not None:
        plot_runs(runs, given.output, known)
        print(f"wrote {given.output}")


def _print_data(paths: Sequence[str], given: AnalyzeFlags) -> None:
    # Imported here: matplotlib and TensorFlow take seconds.
    import_tensorflow()
    from albert_tf.analysis.record_report import (
        examples_text,
        plot_records,
        record_table,
    )
    from albert_tf.analysis.records import analyze_records
    from albert_tf.pretraining.records import open_records
    from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

    tokenizer = None
    if given.spm_model_file is not None:
        tokenizer = AlbertTokenizer.from_file(given.spm_model_file)
    records = open_records(paths, given.split)
    if given.output is not None:
        files = [file.path for file in records.files[records.split]]
        check_not_input(given.output, [*paths, *files])
    statistics = analyze_records(
        records,
        max_records=given.max_records,
        num_examples=given.examples,
        tokenizer=tokenizer,
    )
    if given.output is not None:
        plot_records(statistics, given.output)
    print(record_table(statistics))
    if statistics.examples:
        print(f"\n{examples_text(statistics)}")
    if given.output is not None:
        print(f"wrote {given.output}")


def _print_memory(
    configs: Mapping[str, AlbertConfig], given: AnalyzeFlags
) -> None:
    print(
        f"{'MiB':20} {'weights':>8} {'moments':>8} {'gradients':>9} "
        f"{'activations':>11} {'working':>8} {'update':>8} {'total':>8}"
    )
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
        columns = (
            (memory.weights, 8),
            (memory.slots, 8),
            (memory.gradients, 9),
            (memory.activations, 11),
            (memory.working, 8),
            (memory.update, 8),
            (memory.total, 8),
        )
        numbers = (f"{size / 2**20:{width},.0f}" for size, width in columns)
        print(f"{name:20} {' '.join(numbers)}")


def _print_parameters(
    configs: Mapping[str, AlbertConfig], given: AnalyzeFlags
) -> None:
    configs = {**configs, **BERT}
    print(parameter_table(configs))
    if given.output is not None:
        plot_parameters(configs, given.output)
        print(f"wrote {given.output}")


def _print_similarity(models: Sequence[str], given: AnalyzeFlags) -> None:
    if given.output is not None:
        check_not_input(given.output, models)
    texts = list(itertools.islice(_texts(given), given.max_texts))
    import_tensorflow()
    from albert_tf.analysis.similarity import analyze_similarity

    report = analyze_similarity(
        models,
        texts,
        iterations=given.iterations,
        max_seq_length=given.max_seq_length,
        # An empty mapping is the same architecture.
        config_overrides=given.config_overrides or None,
    )
    _print_report(report, given)


def _texts(given: AnalyzeFlags) -> Iterator[str]:
    """Yields the lines of the user's files, or paragraphs of Python's."""
    from albert_tf.demo.corpora import python_documents
    from albert_tf.pretraining.text_files import find_text_files, read_lines

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
    if given.output is not None:
        check_not_input(given.output, [model])
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
            f"albert: the text has {report.cut:,} tokens more than the "
            f"{len(report.tokens)} that are read; see --max_seq_length",
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
    """Draws the picture, if there is to be one, and prints the numbers."""
    if given.output is not None:
        report.plot(given.output)
    if given.json:
        print(json.dumps(report.to_dict()))
        return
    print(report.table())
    if given.output is not None:
        print(f"wrote {given.output}")
