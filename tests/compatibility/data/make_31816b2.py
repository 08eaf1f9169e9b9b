"""One of each artifact, written by the code of commit 31816b2.

    git worktree add old 31816b2
    ln -s ../export old/albert_tf/export
    ln -s ../official_configs old/albert_tf/official_configs
    PYTHONPATH=old python make_31816b2.py 31816b2

makes the folder 31816b2 anew. README.md, beside the results, lists the
commands that were given.
"""

import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import sys
import tarfile
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"  # As `albert` has it.

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401

import albert_tf  # noqa: E402
from albert_tf.cli import main  # noqa: E402
from albert_tf.training import loop  # noqa: E402

PRETRAIN = (
    "pretrain --input=records --config=albert_base_v2 "
    "--config_overrides=vocab_size=150,embedding_size=4,hidden_size=16,"
    "num_hidden_layers=2,num_attention_heads=2,intermediate_size=16,"
    "max_position_embeddings=64,hidden_dropout_prob=0.1,"
    "attention_probs_dropout_prob=0.1,initializer_range=0.6 "
    "--train_batch_size=4 --eval_batch_size=4 --num_warmup_steps=2 "
    "--steps_per_loop=1 --log_steps=1 --keep_checkpoint_max=1 "
    "--best_metric=loss "
)
RUN = (
    PRETRAIN + "--output=run --schedule=warmup_stable_decay --eval_steps=3 "
    "--learning_rate=0.01 --num_train_steps={steps}"
)
INTERRUPTED_RUN = (
    PRETRAIN + "--output=interrupted/run --num_train_steps=8 --eval_steps=4 "
    "--optimizer=adamw --learning_rate=0.005 --ema_decay=0.5 --seed=3 "
    "--gradient_accumulation_steps=2"
)
FINETUNE = (
    "finetune --init_from=run --num_train_steps=6 --eval_steps=3 "
    "--train_batch_size=8 --learning_rate=0.003 --steps_per_loop=1 "
    "--log_steps=1 --output={output} "
)
SPANS = "--max_seq_length=32 --doc_stride=8 --max_query_length=8 --n_best=5 "
# Kind -> the file to train on, to be scored on and to be predicted, and flags.
KINDS = {
    "classes": ("classes.csv", "--task=text --classes=bad,good"),
    "number": ("number.tsv", "--task=text --regression --pair_column=pair"),
    "choices": ("dream.json", "--task=dream --max_qa_length=16"),
    "spans": ("squad1.json", "--task=squad1.1 " + SPANS),
    "joint_spans": ("squad2.json", "--task=squad2.0 " + SPANS),
    "words": ("words.txt", "--task=ner"),
}
SEEDS = (
    "finetune --task=sst2 --data=tasks/glue --init_from=run --output=seeds "
    "--runs=2 --num_train_steps=4 --eval_steps=2 --train_batch_size=8 "
    "--learning_rate=0.003 --max_seq_length=32 --cache_dir=cache"
)
EXPORTS = {
    "encoder": "--kind=encoder --model=run",
    "preprocessor": "--kind=preprocessor --model=run --seq_length=16",
    "text_encoder": "--kind=text_encoder --model=run --seq_length=32",
    **{
        f"task_{kind}": f"--kind=task --model=finetuned/{kind}"
        for kind in KINDS
    },
    "litert_encoder": "--kind=litert --model=run --seq_length=16",
    "litert_encoder_dynamic": "--kind=litert --model=run --seq_length=16 "
    "--quantization=dynamic",
    "litert_task_classes": "--kind=litert --model=finetuned/classes",
}
TEXTS = ["The old miller sold 1,250 apples.", "a green boat", "Why not?"]
WHERE = "Where did the old miller put the lamp?"
TASK_INPUTS = {
    "classes": {"text": TEXTS},
    "number": {"text": TEXTS, "text_pair": TEXTS[::-1]},
    "choices": {
        "context": TEXTS[:2],
        "question": [WHERE, "Who sold it?"],
        "options": [["a lamp", "the boat", "no one"]] * 2,
    },
    "spans": {"question": [WHERE] * 2, "context": TEXTS[:2]},
    "joint_spans": {"question": [WHERE] * 2, "context": TEXTS[:2]},
    "words": {"text": TEXTS},
}
PACKED = [
    "vocab",
    "records",
    "run",
    "interrupted",
    "finetuned",
    "seeds",
    "cache",
    "exports",
    "pretrainer",
    "encoder.keras",
    "classifier.keras",
    "hub_layers.keras",
]
FLAG = re.compile(r"^  --(\[no\])?(\w+): (.*?)(?=^  --|^\S|\Z)", re.M | re.S)

commands: list[str] = []


class Stop:
    """What Ctrl-C makes true: here, when so many steps are made."""

    def __init__(self, steps):
        self.left = steps

    def is_set(self):
        self.left -= 1
        return self.left == 0


def albert(command, output=None, *, stop_after=None):
    """Runs a command; returns what it printed, which may go to a file.

    It runs in a fork of this process, which has imported TensorFlow but
    started nothing of it: importing takes most of a command's time.
    """
    commands.append(f"albert {command}" + (f" > {output}" if output else ""))
    if stop_after:
        commands[-1] += f"  # Stopped after step {stop_after}."
        stop = contextlib.nullcontext(Stop(stop_after))
    print(commands[-1], flush=True)
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            if stop_after:
                loop.graceful_stop = lambda: stop
            main.run(shlex.split(command))
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        if status:
            sys.exit(out.read() + err.read())
        printed = out.read()
    if output:
        pathlib.Path(output).parent.mkdir(exist_ok=True)
        pathlib.Path(output).write_text(printed)
    return printed


class Writer:
    """Sentences that nobody has written before."""

    PEOPLE = "miller sailor teacher painter farmer doctor baker child".split()
    THINGS = "apple lamp boat letter candle basket hammer violin".split()
    PLACES = "garden harbour kitchen attic market tower bridge forest".split()
    WORDS = "old young green heavy small bright broken silent".split()
    DEEDS = "sold found carried painted lost repaired hid wanted".split()
    ENDS = (
        "in the {place}",
        "before the rain began",
        "near the {place} at {hour} o'clock",
        "while the {word} {person} slept",
        "for {count} coins",
    )

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def parts(self):
        names = {
            "person": self.PEOPLE,
            "thing": self.THINGS,
            "place": self.PLACES,
            "word": self.WORDS,
            "deed": self.DEEDS,
        }
        parts = {name: self.rng.choice(words) for name, words in names.items()}
        parts["hour"] = self.rng.randint(1, 12)
        parts["count"] = f"{self.rng.randint(2, 4000):,}"
        return parts

    def fill(self, template):
        return template.format(**self.parts())

    def sentence(self):
        end = self.fill(self.rng.choice(self.ENDS))
        return self.fill(f"The {{word}} {{person}} {{deed}} a {{thing}} {end}.")


def write_text():
    writer = Writer(1)
    documents = []
    for _ in range(20):
        documents.append("\n".join(writer.sentence() for _ in range(10)))
    pathlib.Path("text.txt").write_text("\n\n".join(documents) + "\n")


def write_tasks():
    tasks = pathlib.Path("tasks")
    (tasks / "glue" / "SST-2").mkdir(parents=True)
    writer, rng = Writer(2), random.Random(3)
    sentences = [writer.sentence() for _ in range(24)]
    good = Writer.WORDS[::2]
    labels = ["good" if s.split()[1] in good else "bad" for s in sentences]
    pairs = list(zip(sentences, labels, strict=True))
    rows = [f'"{s}",{x}' for s, x in pairs]
    (tasks / "classes.csv").write_text("\n".join(["text,label", *rows, ""]))
    rows = [f"{s}\t{x == 'good':d}" for s, x in pairs]
    for split in ("train", "dev"):
        (tasks / "glue" / "SST-2" / f"{split}.tsv").write_text(
            "\n".join(["sentence\tlabel", *rows, ""])
        )
    rows = [f"{number}\t{s}" for number, s in enumerate(sentences)]
    (tasks / "glue" / "SST-2" / "test.tsv").write_text(
        "\n".join(["index\tsentence", *rows, ""])
    )
    rows = [
        f"{one}\t{other}\t{len({*one.split()} & {*other.split()}) / 2}"
        for one, other in itertools.pairwise(sentences)
    ]
    (tasks / "number.tsv").write_text(
        "\n".join(["text\tpair\tlabel", *rows, ""])
    )
    dialogues = []
    for number in range(16):
        parts = writer.parts()
        lines = [
            "M: Where is the {word} {thing}?".format(**parts),
            "W: The {person} {deed} it in the {place}.".format(**parts),
        ]
        options = [parts["place"], *rng.sample(Writer.PLACES, 3)]
        options = sorted(dict.fromkeys(options))
        options.remove(rng.choice([x for x in options if x != parts["place"]]))
        options = (options + ["nowhere", "at home"])[:3]
        if parts["place"] not in options:
            options[0] = parts["place"]
        question = {
            "question": "Where is it?",
            "choice": options,
            "answer": parts["place"],
        }
        dialogues.append([lines, [question], f"d{number}"])
    (tasks / "dream.json").write_text(json.dumps(dialogues, indent=1))
    for version in (1, 2):
        paragraphs = []
        for number in range(16):
            context = " ".join(writer.sentence() for _ in range(1 + number % 3))
            words = context.split()
            none = version == 2 and number % 4 == 0
            answer = {
                "text": " ".join(words[1:3]),
                "answer_start": len(words[0]) + 1,
            }
            qa = {
                "id": f"q{number}",
                "question": f"Who {words[3]} {words[5]}?",
                "answers": [] if none else [answer],
            }
            if version == 2:
                qa["is_impossible"] = none
            paragraphs.append({"context": context, "qas": [qa]})
        data = {"data": [{"title": "t", "paragraphs": paragraphs}]}
        (tasks / f"squad{version}.json").write_text(json.dumps(data, indent=1))
    lines = []
    for sentence in sentences:
        after = ""
        for word in sentence.rstrip(".").split():
            person, place = word in Writer.PEOPLE, word in Writer.PLACES
            label = "B-PER" if person else "B-LOC" if place else "O"
            lines.append(f"{word} {label}")
        lines += [". O", after]
    (tasks / "words.txt").write_text("\n".join(lines) + "\n")


def write_flags():
    lines = []
    for command in re.findall(r"^  ([a-z-]+)  ", albert("--help"), re.M):
        for no, name, text in FLAG.findall(albert(f"{command} --help")):
            text = " ".join(text.split())
            default = re.search(r"\(default: ([^()]*)\)$", text)
            value = default[1] if default else "False" if no else "None"
            lines.append(f"{command} {name} {value}")
    pathlib.Path("legacy_flags.txt").write_text("\n".join(lines) + "\n")


def save_outputs(name, given, outputs):
    """Writes inputs, and what was computed of them as `output/NAME`."""
    if not isinstance(outputs, dict):
        outputs = {"output": outputs}
    arrays = {n: np.array(x) for n, x in given.items()}
    arrays |= {f"output/{n}": np.array(x) for n, x in outputs.items()}
    for key, value in arrays.items():
        if value.dtype == object:  # Bytes.
            arrays[key] = np.char.decode(value.astype("S"), "utf-8")
    pathlib.Path("outputs").mkdir(exist_ok=True)
    np.savez_compressed(f"outputs/{name}.npz", **arrays)


def write_models():
    """Writes what programs write, and what models and exports compute."""
    pretrainer = albert_tf.AlbertPretrainer.from_pretrained("run")
    pretrainer.save_pretrained("pretrainer")
    inputs = pretrainer.tokenizer(TEXTS, max_length=16, padding="max_length")
    batch = inputs | {
        "masked_lm_positions": np.array([[1, 3]] * len(TEXTS), "int32")
    }
    outputs = pretrainer(batch)
    logits = {n: x for n, x in outputs.items() if n.endswith("logits")}
    save_outputs("pretrainer", batch, logits)
    encoder = albert_tf.AlbertEncoder.from_pretrained("run")
    encoder.save("encoder.keras")
    outputs = encoder(inputs)
    names = ("sequence_output", "pooled_output")
    save_outputs("encoder", inputs, {n: outputs[n] for n in names})
    classifier = albert_tf.AlbertClassifier.from_pretrained("finetuned/classes")
    classifier.save("classifier.keras")
    save_outputs("classifier", inputs, classifier(inputs))
    text = keras.Input((), dtype="string")
    ids = albert_tf.HubLayer("exports/preprocessor", trainable=False)(text)
    pooled = albert_tf.HubLayer("exports/encoder")(ids)["pooled_output"]
    dense = keras.layers.Dense(1, kernel_initializer="ones")(pooled)
    model = keras.Model(text, dense)
    model.save("hub_layers.keras")
    texts = tf.constant(TEXTS)
    save_outputs("hub_layers", {"text": TEXTS}, model(texts))

    layer = albert_tf.HubLayer
    save_outputs("export_encoder", inputs, layer("exports/encoder")(inputs))
    for name in ("preprocessor", "text_encoder"):
        outputs = layer(f"exports/{name}")(texts)
        save_outputs(f"export_{name}", {"text": TEXTS}, outputs)
    for kind, given in TASK_INPUTS.items():
        task = {n: tf.constant(x) for n, x in given.items()}
        outputs = layer(f"exports/task_{kind}")(task)
        save_outputs(f"export_task_{kind}", given, outputs)
    for name in (n for n in EXPORTS if n.startswith("litert")):
        run = tf.lite.Interpreter(
            f"exports/{name}/model.tflite"
        ).get_signature_runner("serving_default")
        length = int(run.get_input_details()["input_mask"]["shape"][1])
        row = pretrainer.tokenizer(
            TEXTS[:1], max_length=length, padding="max_length"
        )
        save_outputs(f"export_{name}", row, run(**row))


def pack(names):
    """Puts files and folders into an archive, the same every time.

    xz, as the vocabulary of each model is one and the same.
    """
    with tarfile.open("artifacts.tar.xz", "w:xz", preset=9) as archive:
        for name in names:
            paths = [pathlib.Path(name), *sorted(pathlib.Path(name).rglob("*"))]
            for path in paths:
                info = archive.gettarinfo(path)
                info.mtime = info.uid = info.gid = 0
                info.uname = info.gname = ""
                if path.is_file():
                    with path.open("rb") as file:
                        archive.addfile(info, file)
                else:
                    archive.addfile(info)
    for name in names:
        path = pathlib.Path(name)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def make():
    write_text()
    write_tasks()
    write_flags()
    commands.clear()
    albert(
        "train-vocab --input=text.txt --output=vocab/spiece --vocab_size=150"
    )
    albert(
        "create-data --input=text.txt --spm_model_file=vocab/spiece.model "
        "--output=records --max_seq_length=32 --max_predictions_per_seq=5 "
        "--dupe_factor=2 --heldout_fraction=0.2 --num_shards=2 --compress"
    )
    albert(RUN.format(steps=6))
    albert("evaluate --run=run --input=records --json", "scores/run.json")
    albert(
        "evaluate --run=run --checkpoint=best --input=records --json",
        "scores/run_best.json",
    )
    shutil.copytree("run", "copy")
    albert(RUN.format(steps=9).replace("--output=run", "--output=copy"))
    albert("evaluate --run=copy --input=records --json", "scores/run_9.json")
    shutil.rmtree("copy")
    albert(INTERRUPTED_RUN, stop_after=5)
    whole = INTERRUPTED_RUN.replace("interrupted/run", "whole")
    albert(whole)
    albert(
        "evaluate --run=whole --input=records --json",
        "scores/interrupted_run.json",
    )
    shutil.rmtree("whole")
    for kind, (file, flags) in KINDS.items():
        file = f"tasks/{file}"
        flags += f" --train={file} --dev={file}"
        if "max_seq" not in flags:
            flags += " --max_seq_length=64"
        albert(FINETUNE.format(output=f"finetuned/{kind}") + flags)
        command = FINETUNE.format(output=f"interrupted/{kind}") + flags
        albert(command, stop_after=4)
        predict(kind, f"finetuned/{kind}", file)
    albert(SEEDS)
    sst2 = "tasks/glue/SST-2"
    for name, model in (
        ("seeds", "seeds"),
        ("ensemble", "seeds/run-0,seeds/run-1"),
    ):
        predict(name, model, f"{sst2}/test.tsv", f"{sst2}/dev.tsv")
    for name, flags in EXPORTS.items():
        albert(f"export {flags} --output=exports/{name}")
    write_models()
    for path in pathlib.Path().rglob("tensorboard"):
        shutil.rmtree(path)
    pack(PACKED)


def predict(name, model, file, labelled=None):
    albert(
        f"predict --model={model} --input={file} --format=jsonl",
        f"predictions/{name}.jsonl",
    )
    albert(
        f"evaluate --model={model} --input={labelled or file} --json",
        f"scores/{name}.json",
    )


README = """# What commit 31816b2 wrote

One artifact of each kind, for `test_31816b2.py`: later code opens all of it.
Made by `make_31816b2.py` with the code of that commit, {versions}.
The texts and the data of the tasks are its own: random words in a few patterns.

- `artifacts.tar.xz`: all that the commands below wrote, but for the events of
  TensorBoard; and what the script wrote in Python: `pretrainer/` by
  `save_pretrained`; `encoder.keras`, `classifier.keras` (of
  `finetuned/classes`) and `hub_layers.keras` by `save` of Keras.
- `text.txt`, `tasks/`: what they read.
- `predictions/`, `scores/`: what they printed. `run_9` is of a copy of `run`
  that the same command with `--num_train_steps=9` made longer. The scores that
  the runs in `interrupted/` shall end with are those of runs that nothing
  stopped: `interrupted_run`, and those of the models in `finetuned/`.
- `outputs/*.npz`: inputs, and as `output/NAME` what the code computed of them
  with models and exports.
- `legacy_flags.txt`: command, flag and default (`None`: there is none) of all
  flags that `--help` lists. `--debug`, `--flagfile` and `--recipe` are of all
  commands. The default of `--num_workers` is the number of the machine's cores.

```bash
{commands}
```
"""


def write_readme(lines):
    versions = f"TensorFlow {tf.__version__} and Keras {keras.__version__}"
    text = README.format(versions=versions, commands="\n".join(lines))
    pathlib.Path("README.md").write_text(text)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]).absolute()
    if target.exists():
        shutil.rmtree(target)
    target.mkdir()
    os.chdir(target)
    make()
    write_readme(commands)
