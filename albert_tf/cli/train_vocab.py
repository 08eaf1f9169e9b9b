r"""Train a SentencePiece or WordPiece vocabulary on your text.

Examples:
  albert train-vocab --input='text/*.txt' --text_format=prose --output=vocab
  albert train-vocab --input='text/*.txt' --text_format=prose --output=vocab \
      --model_type=wordpiece --vocab_size=8000
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterator

from albert_tf.cli.flags import CommandFlags
from albert_tf.files import check_not_input, split_patterns, write_atomically
from albert_tf.pretraining.data_config import TextConfig
from albert_tf.pretraining.documents import (
    describe_oddities,
    read_corpus,
    uniform_hash,
)
from albert_tf.pretraining.text_files import TextPath, find_text_files
from albert_tf.settings import described, setting
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import (
    SentenceSample,
    VocabularyConfig,
    train_vocabulary,
    vocabulary_files,
)
from albert_tf.text.vocabulary_report import measure_vocabulary

# Of each input: 5,000 sentences have a sampling error of about 1 %.
_MOST_HELDOUT = 5000


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Where the vocabulary and its report go."""

    output: str = dataclasses.field(
        metadata=described(
            "Prefix of the .model and .vocab files, or of BERT's .txt."
        )
    )
    heldout_fraction: float = setting(
        0.02,
        "Share of the sentences to report on instead of training on them.",
        bounds="[0, 1)",
    )
    report: str | None = setting(None, "JSON file to write the report to.")


CONFIGS = (TextConfig, OutputFlags, VocabularyConfig)


def main(flags: CommandFlags) -> None:
    """Trains the vocabulary that the flags describe, and reports on it."""
    text, config = flags.build(TextConfig), flags.build(VocabularyConfig)
    given = flags.build(OutputFlags)
    sources: dict[str, list[TextPath]] = {}
    files = find_text_files(text.input)
    for pattern in split_patterns(text.input):
        seen = set().union(*sources.values())
        sources[pattern] = [
            path for path in find_text_files([pattern]) if path not in seen
        ]
    outputs = vocabulary_files(given.output, config.model_type)
    for path in (*outputs, given.report):
        if path is not None:
            check_not_input(path, files)
    oddities: collections.Counter[str] = collections.Counter()
    heldout = {
        source: SentenceSample(_MOST_HELDOUT, config.seed) for source in sources
    }

    def training_sentences() -> Iterator[str]:
        for source, files in sources.items():
            for document in read_corpus(files, text, oddities):
                for sentence in document:
                    # By text, so that repeats are on the same side.
                    share = uniform_hash(sentence.encode(), config.seed)
                    if share < given.heldout_fraction:
                        heldout[source].add(sentence)
                    else:
                        yield sentence

    path = train_vocabulary(training_sentences(), given.output, config)
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
            "no sentence is held out, so there is no report: give more text, "
            f"or more than --heldout_fraction={given.heldout_fraction}"
        )
    if given.report is not None:
        content = json.dumps(report.to_json(), indent=2, ensure_ascii=False)
        write_atomically(given.report, content + "\n")
        print(f"wrote {given.report}")
    print(f"wrote {path}")
