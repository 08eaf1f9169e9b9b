r"""Train a SentencePiece or WordPiece vocabulary on your text.

Examples:
  albert train-vocab --input='text/*.txt' --text_format=prose --output=vocab
  albert train-vocab --input='text/*.txt' --text_format=prose --output=vocab \
      --model_type=wordpiece --vocab_size=8000
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import os
import pathlib
from collections.abc import Iterable, Iterator

from albert_tf.cli.flags import CommandFlags
from albert_tf.data.data_config import TextConfig
from albert_tf.data.documents import (
    describe_oddities,
    read_corpus,
    uniform_hash,
)
from albert_tf.data.mixture import find_corpus_files, parse_corpora
from albert_tf.data.text_files import (
    TextPath,
    find_text_files,
    is_folder,
    sample_blocks,
)
from albert_tf.errors import InputError
from albert_tf.files import (
    check_not_input,
    is_remote,
    real_path,
    split_patterns,
    write_atomically,
)
from albert_tf.input_files import exists
from albert_tf.settings import described, setting
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import (
    SentenceSample,
    VocabularyConfig,
    sample_by_weight,
    train_vocabulary,
)
from albert_tf.text.vocabulary_paths import (
    new_vocabulary_files,
    vocabulary_files,
)
from albert_tf.text.vocabulary_report import measure_vocabulary

# Per source: 5,000 sentences have a sampling error of about 1 %.
_MAX_HELDOUT = 5000


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Flags for the outputs."""

    output: str = dataclasses.field(
        metadata=described(
            "Prefix of the .model and .vocab files, or of the .txt."
        )
    )
    heldout_fraction: float = setting(
        0.02,
        "Fraction of the sentences to hold out for the report.",
        bounds="[0, 1)",
    )
    max_bytes: int = setting(
        1 << 30,
        "Maximum bytes of text to read from each corpus or pattern; more text "
        "is sampled in blocks at random positions.",
        bounds="[1048576, inf)",
    )
    report: str | None = setting(None, "JSON file to write the report to.")
    overwrite: bool = setting(
        False, "Replace an existing vocabulary and report."
    )


def _find_sources(
    text: TextConfig,
) -> tuple[dict[str, list[TextPath]], dict[str, float]]:
    """Returns the files of each corpus or pattern, and the corpora's weights.

    A file that several patterns match, by whatever path, belongs to the first.
    Patterns have no weights.
    """
    if corpora := parse_corpora(text.input):
        files = find_corpus_files(corpora, text.data_dir)
        return files, {corpus.name: corpus.weight for corpus in corpora}
    sources: dict[str, list[TextPath]] = {}
    seen: set[pathlib.Path] = set()
    for pattern in dict.fromkeys(split_patterns(text.input)):
        found = find_text_files([pattern], text.data_dir)
        sources[pattern] = [x for x in found if real_path(x) not in seen]
        seen.update(map(real_path, found))
    return sources, {}


CONFIGS = (TextConfig, OutputFlags, VocabularyConfig)


def main(flags: CommandFlags) -> None:
    """Trains a vocabulary and reports on held-out sentences."""
    text, config = flags.build(TextConfig), flags.build(VocabularyConfig)
    given = flags.build(OutputFlags)
    sources, weights = _find_sources(text)
    outputs = vocabulary_files(given.output, config.model_type)
    for path in (*outputs, given.report):
        if path is not None:
            check_not_input(path, itertools.chain(*sources.values()))
    # Before the text is read, which may take hours.
    new_vocabulary_files(
        given.output, config.model_type, overwrite=given.overwrite
    )
    if os.path.abspath(given.report or "") in map(os.path.abspath, outputs):
        raise InputError(
            f"--report={given.report} is a file of the vocabulary; choose "
            "another name"
        )
    folder = os.path.dirname(os.path.abspath(given.report or ""))
    if not is_remote(given.report or "") and not os.path.isdir(folder):
        raise InputError(
            f"--report={given.report}: {folder} does not exist; create it"
        )
    if given.report is not None and is_folder(given.report):
        raise InputError(f"--report={given.report}: is a folder; name a file")
    report = given.report or ""
    is_file = exists(report) if is_remote(report) else os.path.isfile(report)
    if is_file and not given.overwrite:
        raise InputError(
            f"--report={given.report} exists; choose another name, or "
            "replace it with --overwrite"
        )
    oddities: collections.Counter[str] = collections.Counter()
    heldout = {
        source: SentenceSample(_MAX_HELDOUT, config.seed) for source in sources
    }

    def training_sentences(source: str) -> Iterator[str]:
        files = sample_blocks(sources[source], given.max_bytes, config.seed)
        for document in read_corpus(files, text, oddities):
            for sentence in document:
                # By content, so that repeated sentences are not split up.
                share = uniform_hash(sentence.encode(), config.seed)
                if share < given.heldout_fraction:
                    heldout[source].add(sentence)
                else:
                    yield sentence

    sentences: Iterable[str] = itertools.chain.from_iterable(
        map(training_sentences, sources)
    )
    if weights:
        sentences = sample_by_weight(
            {x: (y, training_sentences(x)) for x, y in weights.items()}, config
        )
    path = train_vocabulary(
        sentences, given.output, config, overwrite=given.overwrite
    )
    for line in describe_oddities(oddities):
        print(line)
    settings = {"do_lower_case": config.do_lower_case}
    if config.strip_accents is not None:
        settings["strip_accents"] = config.strip_accents
    report = measure_vocabulary(
        AlbertTokenizer.from_file(path, **settings),
        {source: sample.texts for source, sample in heldout.items()},
    )
    if report.total.sentences:
        print(report.table())
    elif given.heldout_fraction:
        print(
            "no report, since no sentence is held out: give more text, or a "
            f"larger --heldout_fraction than {given.heldout_fraction}"
        )
    if given.report is not None:
        content = json.dumps(report.to_json(), indent=2, ensure_ascii=False)
        write_atomically(given.report, content + "\n")
        print(f"wrote {given.report}")
    print(f"wrote {path}")
