import dataclasses

import numpy as np
import pytest

from albert_tf.cli.main import main
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Vocabulary
from albert_tf.interop.huggingface import write_huggingface
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.vocabulary_transfer import transfer_vocabulary
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

TABLE = "encoder/embeddings/word_embeddings"
BIAS = "mlm_head/output_bias"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece(*pieces):
    return AlbertWordPieceTokenizer("\n".join(pieces).encode())


@pytest.fixture
def make(config, make_checkpoint):
    """Returns `make(*pieces)`: a checkpoint with a WordPiece vocabulary."""

    def make(*pieces):
        return make_checkpoint(
            config.replace(vocab_size=len(pieces) + 2),  # two rows of padding
            "mlm_head",
            vocabulary=Vocabulary(wordpiece(*pieces)),
        )

    return make


def test_rows_of_the_new_vocabulary(make):
    old = make(*SPECIAL, "play", "##ing", "##in", "##g", "s", "run", "##s")
    new = transfer_vocabulary(
        old,
        wordpiece(
            *reversed(SPECIAL), "run", "playing", "##ins", "s", "ß", "playß"
        ),
    )
    assert new.config == old.config.replace(vocab_size=11)
    assert new.notes == (
        "vocabulary: 12 -> 11 pieces: 7 the same, 3 means of their parts, "
        "1 unknown",
    )
    for path in (TABLE, BIAS):
        before, after = old.arrays[path], new.arrays[path]
        for number, rows in enumerate(
            [
                *([4], [3], [2], [1], [0]),  # the special tokens
                [10],
                [5, 6],  # play ##ing
                [7, 11],  # ##in ##s: the longest part is first
                [9],
                range(12),
                [5],  # play, without what is not known
            ]
        ):
            expected = before[list(rows)].mean(axis=0)
            np.testing.assert_array_equal(after[number], expected)
    others = set(old.arrays) - {TABLE, BIAS}
    assert set(new.arrays) == set(old.arrays)
    for path in others:
        np.testing.assert_array_equal(new.arrays[path], old.arrays[path])


def test_chinese_characters_and_punctuation_are_words(
    make, tokenizer, monkeypatch
):
    """Their pieces with ## were never used."""
    old = make(*SPECIAL, "##中", "中", "国", "##!", "!", "a", "##b")
    pieces = ["中", "▁国", "▁中国", "国中", "!", "▁a", "b", "a"]
    first = max(getattr(tokenizer, f"{x}_id") for x in ("unk", "mask")) + 1
    names = dict(enumerate(pieces, first))
    monkeypatch.setattr(
        tokenizer, "id_to_piece", lambda x: names.get(x, "unknown")
    )
    new = transfer_vocabulary(old, tokenizer)
    rows = [[6], [7], [6, 7], [7, 6], [9], [10], [11]]
    for piece_id, row in enumerate(rows, first):
        np.testing.assert_allclose(
            new.arrays[TABLE][piece_id],
            old.arrays[TABLE][row].mean(axis=0),
            rtol=1e-6,
        )


def test_the_same_vocabulary_keeps_the_weights(checkpoint, assert_equal):
    before = open_checkpoint(checkpoint)
    assert_equal(transfer_vocabulary(before, before.tokenizer), before)


def test_a_tokenizer_of_more_pieces_is_refused(make):
    checkpoint = make(*SPECIAL, "a", "b")
    larger = Vocabulary(wordpiece(*SPECIAL, *"abcdefgh"))
    broken = dataclasses.replace(checkpoint, vocabulary=larger)
    with pytest.raises(InputError, match="13 pieces, but the model's vocab"):
        transfer_vocabulary(broken, wordpiece(*SPECIAL, "a"))


def test_case_settings_of_wordpiece_stay(make, tmp_path):
    write_huggingface(make(*SPECIAL, "a", "b"), make_folder(tmp_path / "old"))
    output = tmp_path / "new"
    main(
        f"convert --input={tmp_path}/old --output={output} "
        "--spm_model_file=albert_tiny_en".split()
    )
    tokenizer = open_checkpoint(output).tokenizer
    assert tokenizer.settings["strip_accents"] is True
    assert tokenizer.tokenize("Café") == tokenizer.tokenize("cafe")


def test_case_settings_of_the_new_vocabulary(make, tmp_path):
    write_huggingface(make(*SPECIAL, "a", "b"), make_folder(tmp_path / "old"))
    command = f"convert --input={tmp_path}/old --output={tmp_path}/new "
    settings = "--nodo_lower_case --nostrip_accents"
    assert main([*command.split(), *settings.split()]) == 2
    vocabulary = "--spm_model_file=albert_tiny_en"
    assert main([*command.split(), *settings.split(), vocabulary]) in (0, None)
    found = open_checkpoint(tmp_path / "new").tokenizer.settings
    assert (found["do_lower_case"], found["strip_accents"]) == (False, False)


def make_folder(path):
    path.mkdir()
    return path


def test_a_tokenizer_is_required(make_checkpoint, config, tokenizer):
    broken = make_checkpoint(config, vocabulary=Vocabulary(problem="no piece"))
    with pytest.raises(InputError, match=r"no usable tokenizer \(no piece\); "):
        transfer_vocabulary(broken, tokenizer)


def test_from_sentencepiece_to_wordpiece_and_back(checkpoint, tokenizer):
    before = open_checkpoint(checkpoint)
    without = ["▁", "<pad>", "<unk>", *SPECIAL]  # a space is no word
    pieces = {
        number: piece[1:] if piece.startswith("▁") else f"##{piece}"
        for piece, number in tokenizer.get_vocab().items()
        if piece not in without
    }
    there = transfer_vocabulary(before, wordpiece(*SPECIAL, *pieces.values()))
    back = transfer_vocabulary(there, tokenizer)
    words = {x for x in pieces.values() if len(x) == 1 and not x.isalnum()}
    rows = [x for x, piece in pieces.items() if piece[2:] not in words]
    np.testing.assert_array_equal(
        back.arrays[TABLE][rows], before.arrays[TABLE][rows]
    )


def test_a_converted_model_reads_the_same_words(
    checkpoint, text_file, tmp_path, capsys
):
    """A smaller vocabulary; words whose pieces it kept have equal outputs."""
    lines = text_file.read_text("utf-8").splitlines()
    vocabulary = train_vocabulary(
        lines, tmp_path / "other", VocabularyConfig(vocab_size=400)
    )
    main(
        [
            "convert",
            f"--input={checkpoint}",
            f"--spm_model_file={vocabulary}",
            f"--output={tmp_path / 'model'}",
        ]
    )
    out = capsys.readouterr().out
    assert "vocabulary: 600 -> 400 pieces: " in out
    models = [
        AlbertPretrainer.from_pretrained(folder)
        for folder in (checkpoint, tmp_path / "model")
    ]
    assert models[1].config.vocab_size == 400
    texts = [
        line
        for line in lines
        if len({tuple(x.tokenizer.tokenize(line)) for x in models}) == 1
        and len(line) > 20
    ][:8]
    assert texts
    states = []
    for model in models:
        encoded = model.tokenizer(texts, max_length=32)
        states.append(np.asarray(model.encoder(encoded)["sequence_output"]))
    # The rows are the same, in other places.
    np.testing.assert_array_equal(*states)
