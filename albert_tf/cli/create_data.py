"""Make pretraining records (sentence pairs, masked words) from text."""

from __future__ import annotations

import os

from absl import flags

from albert_tf.cli import text_flags

flags.adopt_module_key_flags(text_flags)

_OUTPUT = flags.DEFINE_string("output", None, "Folder to make.", required=True)
_SPM_MODEL = flags.DEFINE_string(
    "spm_model_file",
    None,
    "SentencePiece model, or a WordPiece vocab.txt.",
    required=True,
)
_DIGIT_COMMA = flags.DEFINE_enum(
    "digit_comma",
    "google",
    ["google", "corrected"],
    "How a piece such as '9,' is split; the released models saw google.",
)
_MAX_SEQ_LENGTH = flags.DEFINE_integer(
    "max_seq_length", 512, "Tokens of a record."
)
_MAX_PREDICTIONS = flags.DEFINE_integer(
    "max_predictions_per_seq",
    20,
    "Most predictions of a record; the original's 20 are 3.9 % of 512 tokens.",
)
_MASKED_LM_PROB = flags.DEFINE_float(
    "masked_lm_prob", 0.15, "Share of the tokens to predict, up to that."
)
_SHORT_SEQ_PROB = flags.DEFINE_float(
    "short_seq_prob", 0.1, "Share of documents cut into shorter records."
)
_NGRAM = flags.DEFINE_integer("ngram", 3, "Most words masked together.")
_FAVOR_SHORTER_NGRAM = flags.DEFINE_boolean(
    "favor_shorter_ngram", True, "Draw n words with probability ~ 1/n."
)
_WHOLE_WORD_MASK = flags.DEFINE_boolean(
    "do_whole_word_mask", True, "Mask all pieces of a word or none."
)
_SENTENCE_ORDER = flags.DEFINE_enum(
    "sentence_order",
    "sop",
    ["sop", "nsp", "none"],
    "sop: half of the pairs are swapped (ALBERT). nsp: half have a random "
    "second segment (BERT). none: always in order.",
)
_ONE_SENTENCE_CHUNKS = flags.DEFINE_enum(
    "one_sentence_chunks",
    "drop",
    ["drop", "random_next"],
    "What becomes of a chunk that has no second sentence to swap with; "
    "random_next is the original's way, which mixes NSP into SOP.",
)
_DUPE_FACTOR = flags.DEFINE_integer(
    "dupe_factor", 10, "Passes over the text, each with its own masks."
)
_HELDOUT_FRACTION = flags.DEFINE_float(
    "heldout_fraction", 0.0, "Share of documents kept for evaluation."
)
_SEED = flags.DEFINE_integer(
    "random_seed", 12345, "Equal settings and seeds give equal bytes."
)
_NUM_SHARDS = flags.DEFINE_integer("num_shards", 8, "Record files.")
_COMPRESS = flags.DEFINE_boolean("compress", False, "Write .tfrecord.gz.")
_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers", os.cpu_count() or 1, "Processes; the output is the same."
)
_OVERWRITE = flags.DEFINE_boolean(
    "overwrite", False, "Replace finished data in the output folder."
)


def main() -> None:
    """Makes the data that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.data.pretraining_data import create_pretraining_data
    from albert_tf.data.pretraining_data_config import PretrainingDataConfig
    from albert_tf.text.tokenizer import AlbertTokenizer

    # Other defaults are the tokenizer's: SentencePiece and WordPiece differ.
    settings = {
        flag.name: flag.value
        for flag in (text_flags.STRIP_ACCENTS, _DIGIT_COMMA)
        if flags.FLAGS[flag.name].present
    }
    tokenizer = AlbertTokenizer.from_file(
        _SPM_MODEL.value,
        do_lower_case=text_flags.DO_LOWER_CASE.value,
        **settings,
    )
    config = PretrainingDataConfig(
        input_patterns=text_flags.INPUT.value,
        output_folder=_OUTPUT.value,
        tokenizer=tokenizer,
        text_format=text_flags.TEXT_FORMAT.value,
        language=text_flags.LANGUAGE.value,
        max_seq_length=_MAX_SEQ_LENGTH.value,
        max_predictions_per_seq=_MAX_PREDICTIONS.value,
        masked_lm_prob=_MASKED_LM_PROB.value,
        short_seq_prob=_SHORT_SEQ_PROB.value,
        ngram=_NGRAM.value,
        favor_shorter_ngram=_FAVOR_SHORTER_NGRAM.value,
        do_whole_word_mask=_WHOLE_WORD_MASK.value,
        sentence_order=_SENTENCE_ORDER.value,
        one_sentence_chunks=_ONE_SENTENCE_CHUNKS.value,
        dupe_factor=_DUPE_FACTOR.value,
        heldout_fraction=_HELDOUT_FRACTION.value,
        random_seed=_SEED.value,
        num_shards=_NUM_SHARDS.value,
        compress=_COMPRESS.value,
        num_workers=_NUM_WORKERS.value,
        overwrite=_OVERWRITE.value,
    )
    manifest = create_pretraining_data(config, progress=True)
    for split, description in manifest["splits"].items():
        counts = description["counts"]
        print(
            f"{split}: {counts['instances']:,} records of "
            f"{counts['documents']:,} documents, {counts['tokens']:,} tokens; "
            f"padding {description['padding_fraction']:.1%}, masking rate "
            f"{description['masking_rate']:.1%}"
        )
    print(f"wrote {_OUTPUT.value}")
