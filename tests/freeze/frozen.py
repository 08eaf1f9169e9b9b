"""Values of the library that refactoring must not change.

`python tests/freeze/frozen.py` writes them anew to `frozen.json`: only if a
change of values is intended, and announced in CHANGELOG.md. Features,
predictions and outputs of exports were written at commit bca8a67.
"""

import dataclasses
import hashlib
import importlib
import json
import pathlib
import random
import zlib

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

# Those that a line of a table can hold.
TEXTS = [" ".join(x.replace("\0", " ").split()) for x in HOSTILE if x.strip()]
CONTEXT = " ".join(TEXTS)
LENGTHS = {"max_seq_length": 40, "max_qa_length": 16, "n_best": 2}
LENGTHS |= {"max_query_length": 12, "doc_stride": 16}
# A task of each type, and both heads of question answering.
TASK_TYPES = tuple("sst2 stsb dream ner embedding squad1.1 squad2.0".split())
# Kinds, each with the task of a model or with a quantization. A web page has
# files of an ONNX export.
EXPORTS = (
    *("encoder", "preprocessor", "text_encoder"),
    *(f"task {name}" for name in TASK_TYPES),
    *(
        f"{kind}{what}"
        for kind in ("litert", "onnx", "openvino")
        for what in ("", " sst2", " float16", " dynamic")
    ),
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


def architecture(positions):
    """Returns a small architecture for the SentencePiece vocabulary."""
    from albert_tf.config import AlbertConfig

    return AlbertConfig(
        vocab_size=open_tokenizer("sentencepiece").vocab_size,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=positions,
    )


def pretrain_weights(records, output, callbacks=(), **settings):
    """Pretrains a small model; returns a few numbers of its weights."""
    import keras

    from albert_tf.pretraining.config import PretrainConfig
    from albert_tf.pretraining.train import pretrain
    from albert_tf.training.checkpoint_files import (
        list_checkpoints,
        read_checkpoint,
    )

    keras.utils.set_random_seed(0)
    pretrain(
        PretrainConfig(
            input=[str(records)],
            output=output,
            model=architecture(32),
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


def task_of(name):
    """Returns a known task with short sequences."""
    from albert_tf.finetuning.registry import known_task, with_settings

    task = known_task(name)
    if name == "ner":  # Otherwise learnt from examples.
        task = dataclasses.replace(task, labels=("B-X", "B-Y", "O"))
    known = {n: x for n, x in LENGTHS.items() if n in task.settings}
    if name == "squad2.0":  # Every question has an answer.
        known["null_threshold"] = 1e9
    return with_settings(task, known)


def write_examples(folder, task, labelled):
    """Writes `TEXTS` as examples in the form that a task is distributed in."""
    pairs = list(enumerate(zip(TEXTS, [*TEXTS[1:], TEXTS[0]], strict=True)))
    options = [TEXTS[n][:40] for n in (0, 1, 6, 7)]
    path, value, lines = folder / "examples.tsv", None, []
    match task.source.get("reader"):
        case "texts":
            given = {"label": None, **task.source["unlabelled"]}
            name = task.source if labelled else task.source | given
            columns = range(4)
            if name["header"]:
                columns = [name[x] for x in ("label", "id", "text", "pair")]
                columns = [x for x in columns if x is not None]
                lines.append(columns)
            labels = task.labels or ("0.25", "4")
            for n, (a, b) in pairs:
                row = {name["label"]: labels[n % len(labels)]}
                row |= {name["text"]: a, name["pair"]: b}
                lines.append([row.get(x, str(n)) for x in columns])
        case "conll":
            for text in TEXTS:
                words = [*enumerate(text.split())]
                lines += [
                    [f"{x} {('O', 'B-X', 'B-Y')[n % 3]}"] for n, x in words
                ]
                lines.append([""])
        case "race":
            (folder / "high").mkdir()
            path = folder / "high" / "1.txt"
            answers = ["ABCD"[n % 4] for n, _ in pairs]
            value = {"id": "1", "article": CONTEXT, "questions": TEXTS}
            value |= {"options": [options] * len(TEXTS), "answers": answers}
        case "dream":
            value = []
            for n, (a, b) in pairs:
                question = {"question": b, "choice": options[:3]}
                question["answer"] = options[n % 3]
                value.append([[a], [question], str(n)])
        case "squad" | "cmrc":
            questions = []
            for n, text in enumerate(TEXTS):
                answer = {"text": text[:9]}
                answer["answer_start"] = CONTEXT.index(text[:9])
                question = {"id": str(n), "question": text}
                questions.append(question | {"answers": [answer]})
            if task.name == "squad2.0":
                questions[0] |= {"answers": [], "is_impossible": True}
            paragraph = {"context": CONTEXT, "qas": questions}
            value = {"data": [{"paragraphs": [paragraph]}]}
        case None:  # Embeddings.
            lines.append(["sentence1", "sentence2", "score"])
            lines += [[*texts, f"{n % 5}"] for n, texts in pairs]
    lines = [[json.dumps(value)]] if value else lines
    path.write_text("".join("\t".join(x) + "\n" for x in lines), "utf-8")
    return path if path.parent == folder else folder


def read(task_type, folder, *, labelled):
    """Writes and reads examples; those to train on have labels."""
    from albert_tf.finetuning.examples import BadExamples

    folder.mkdir()
    return list(
        task_type.read_examples(
            write_examples(folder, task_type.task_config, labelled),
            bad=BadExamples(),
            labelled=labelled,
            training=labelled,
        )
    )


def feature_digests(folder, name):
    """Returns hashes of a task's batches by tokenizer, with labels or not."""
    from albert_tf.finetuning.registry import make_task_type

    task, found = task_of(name), {}
    for vocabulary in ("sentencepiece", "wordpiece"):
        task_type = make_task_type(task, open_tokenizer(vocabulary))
        for labelled in (True, False) if name != "ax" else (False,):
            kind = f"{vocabulary} {'labelled' if labelled else 'unlabelled'}"
            examples = read(task_type, folder / kind, labelled=labelled)
            features = task_type.features(examples, labelled=labelled)
            batch = features.pad(range(features.num_examples))
            names = sorted(batch)
            found[kind] = digest(names, *(batch[x] for x in names))
    return found


def save_source(folder, name):
    """Saves a fine-tuned model of a task, or a pretrained one for ""."""
    from safetensors.numpy import load_file, save_file

    from albert_tf.finetuning.model_folder import save_model
    from albert_tf.finetuning.registry import make_task_type
    from albert_tf.models.pretrainer import AlbertPretrainer

    tokenizer, config = open_tokenizer("sentencepiece"), architecture(40)
    if name:
        task = task_of(name)
        kind = make_task_type(task, tokenizer)
        model = kind.model_class(config, **kind.model_arguments())
        save_model(folder, model, kind, task)
    else:
        AlbertPretrainer(config).save_pretrained(folder, tokenizer)
    # Weights of no library's initializers, by Hugging Face's names.
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for key, value in tensors.items():
        rng = np.random.default_rng(zlib.crc32(key.encode()))
        center = float("LayerNorm.weight" in key)
        tensors[key] = rng.normal(center, 0.4, value.shape).astype("float32")
    save_file(tensors, path, {"format": "pt"})
    return folder


def predicted(folder, name):
    """Returns the records of a few predictions, rounded."""
    from albert_tf.finetuning.predictor import Predictor

    predictor = Predictor(save_source(folder / "model", name))
    task_type = predictor.task_type
    examples = read(task_type, folder / "examples", labelled=False)[::3]
    predictions = predictor.predict_examples(examples).predictions
    return rounded(list(map(task_type.record, examples, predictions)))


def rounded(value):
    """Returns JSON values with 6 decimals; strings and integers as they are."""
    if isinstance(value, dict):
        return {key: rounded(x) for key, x in value.items()}
    if isinstance(value, list):
        return list(map(rounded, value))
    return round(value, 6) if isinstance(value, float) else value


def export_outputs(folder, name):
    """Returns numbers or hashes of the outputs of an export."""
    from albert_tf.cli.main import main as albert
    from albert_tf.exporting.check_program import load_export

    kind, what = f"{name} ".split(" ")[:2]
    task = what if what in TASK_TYPES else ""
    model, output = save_source(folder / "model", task), folder / "export"
    flags = [f"--kind={kind}", f"--model={model}", f"--output={output}"]
    if what and not task:
        flags.append(f"--quantization={what}")
    assert albert(["export", *flags]) == 0
    export = load_export(str(output))
    texts = TEXTS[::3]
    ids = np.arange(160).reshape(4, 40)
    mask = (np.arange(40) < np.array([40, 9, 17, 2])[:, None]).astype("int32")
    values = {
        "input_word_ids": (5 + ids % 55).astype("int32") * mask,
        "input_mask": mask,
        "input_type_ids": (ids % 40 > 7).astype("int32") * mask,
        "options": [texts] * 4,
        "text_pair": texts[::-1],
        "question": texts[::-1],
    }
    if hasattr(export, "root"):
        serve = export.root.signatures["serving_default"]
        names = serve.structured_input_signature[1]
    else:
        names = export.inputs
    found = export.call(
        "serving_default", {x: values.get(x, texts) for x in names}
    )
    return {
        key: rounded([float(x.mean()), float(x.std()), *map(float, x.flat[:4])])
        if x.dtype.kind == "f"
        else digest(x.astype("S" if x.dtype.kind in "OS" else "i8"))
        for key, x in sorted(found.items())
    }


def main():
    """Writes all values to `frozen.json`."""
    import tempfile

    from albert_tf.finetuning.registry import known_tasks

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
        for key, function, names in (
            ("features", feature_digests, known_tasks()),
            ("predictions", predicted, TASK_TYPES),
            ("exports", export_outputs, EXPORTS),
        ):
            values[key] = {}
            for name in names:
                (folder / key / name).mkdir(parents=True)
                values[key][name] = function(folder / key / name, name)
    FILE.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
