"""Values of the library that refactoring must not change.

`python tests/freeze/frozen.py` writes them anew to `frozen.json`: only if a
change of values is intended, and announced in CHANGELOG.md.
"""

import hashlib
import importlib
import json
import pathlib
import random

import numpy as np

TESTS = pathlib.Path(__file__).parents[1]
FILE = pathlib.Path(__file__).with_name("frozen.json")
VOCABULARIES = {
    "sentencepiece": TESTS / "text" / "data" / "tokenizer_json/spiece.model",
    "sentencepiece_stored": TESTS / "interop" / "data" / "stored/spiece.model",
    "wordpiece": TESTS / "text" / "data" / "wordpiece/vocab.txt",
}
HOSTILE = (
    "",
    " ",
    "The quick brown fox, 3,141.59 kilometers away, didn't jump.",
    "ﬁancé naïve Åse İstanbul ǅ ſtraße ß ẞ",
    "e\u0301 a\u0300\u0327 \u1100\u1161\u11a8 각 \u0344",
    "日本語のテキスト 中文 한국어 ไทย हिन्दी עברית العربية",
    "👩‍👩‍👧‍👦 🏳️‍🌈 \U0001f600\ufe0f 🇩🇪",
    "a\u00a0b\u2003c\u200bd\u200ee\ufefff\u00adg\u2028h\u3000i",
    "tab\tnew\nline\r\nnul\x00bell\x07del\x7f",
    "[CLS] [SEP] [MASK] <pad> <unk> [UNK] ▁under __line__",
    "``quoted'' “quoted” ‘single’ 'x' \"y\" …—–",
    "x" * 300,
    "९९ ١٢٣ ½ ² Ⅷ ㎏ ﷺ",
    "\u0130\u0307\u0049\u0131 \u03a3\u03c3\u03c2 \ufffd \ue000 \U000e0041",
)


def digest(*arrays):
    """Returns a short hash of dtypes, shapes and values."""
    result = hashlib.sha256()
    for array in map(np.asarray, arrays):
        result.update(f"{array.dtype.str} {array.shape}".encode())
        result.update(array.tobytes())
    return result.hexdigest()[:16]


def token_digests(name):
    """Returns a hash of the ids and offsets of each hostile text."""
    tokenizer = open_tokenizer(name)
    return [
        digest(
            np.array(tokenizer.encode(text), "i8"),
            np.array(
                [(x.id, x.start, x.end) for x in tokenizer.iter_tokens(text)],
                "i8",
            ),
        )
        for text in HOSTILE
    ]


def open_tokenizer(name):
    """Opens one of `VOCABULARIES`."""
    from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

    return AlbertTokenizer.from_file(VOCABULARIES[name])


def flags():
    """Returns the flags of all commands, with their defaults."""
    from albert_tf.cli.commands import COMMANDS
    from albert_tf.settings import settings_of

    found = {}
    for command in COMMANDS:
        name = f"albert_tf.cli.{command.replace('-', '_')}"
        configs = importlib.import_module(name).CONFIGS
        found[command] = {
            x.flag: None if x.required else str(x.default)
            # Of equal flags, the first counts.
            for config in reversed(configs)
            for x in settings_of(config)
            if x.flag is not None
        }
    return found


def write_text(path):
    """Writes documents of words in a random order."""
    rng = random.Random(0)
    words = (
        "The quick brown fox jumps over a lazy dog and then it sleeps".split()
    )
    lines = []
    for _ in range(40):
        for _ in range(rng.randint(3, 9)):
            sentence = rng.choices(words, k=rng.randint(3, 15))
            lines.append(" ".join(sentence) + ".")
        lines.append("")
    path.write_text("\n".join(lines))


def make_records(folder, masking, **settings):
    """Makes records of `write_text`'s documents."""
    from albert_tf.data.create_data import create_pretraining_data
    from albert_tf.data.data_config import PretrainingDataConfig

    text = folder / "text.txt"
    write_text(text)
    output = folder / f"records_{masking}"
    create_pretraining_data(
        PretrainingDataConfig(
            input=[str(text)],
            output=output,
            tokenizer=open_tokenizer("sentencepiece"),
            max_seq_length=32,
            max_predictions_per_seq=5,
            heldout_fraction=0.2,
            masking=masking,
            **settings,
        )
    )
    return output


def record_digests(folder, masking):
    """Returns the hash of each record file."""
    paths = sorted(make_records(folder, masking).glob("*tfrecord*"))
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in paths
    }


def pretrain_weights(records, output, callbacks=(), **settings):
    """Pretrains a small model; returns a few numbers of its weights."""
    import keras

    from albert_tf.config import AlbertConfig
    from albert_tf.pretraining.config import PretrainConfig
    from albert_tf.pretraining.train import pretrain
    from albert_tf.training.checkpoint_files import (
        list_checkpoints,
        read_checkpoint,
    )

    tokenizer = open_tokenizer("sentencepiece")
    config = AlbertConfig(
        vocab_size=tokenizer.vocab_size,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    keras.utils.set_random_seed(0)
    pretrain(
        PretrainConfig(
            input=[str(records)],
            output=output,
            model=config,
            num_train_steps=20,
            num_warmup_steps=2,
            train_batch_size=8,
            learning_rate=1e-2,
            save_checkpoints_steps=10,
            eval_steps=0,
            **settings,
        ),
        callbacks=callbacks,
    )
    found = list_checkpoints(output / "checkpoints")
    values = read_checkpoint(found[max(found)])
    return {
        name: [float(value.mean()), float(value.std()), float(value.flat[-1])]
        for name, value in sorted(values.items())
        if name.startswith("model/")
    }


def main():
    """Writes all values to `frozen.json`."""
    import tempfile

    values = {
        "tokens": {name: token_digests(name) for name in VOCABULARIES},
        "flags": flags(),
        "records": {},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for masking in ("static", "dynamic"):
            values["records"][masking] = record_digests(folder, masking)
        values["weights"] = {
            optimizer: pretrain_weights(
                folder / "records_dynamic",
                folder / optimizer,
                optimizer=optimizer,
            )
            for optimizer in ("lamb", "adamw")
        }
    FILE.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
