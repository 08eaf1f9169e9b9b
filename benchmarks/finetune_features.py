"""Features for `finetune_jax.py`, and scores of its results.

    python benchmarks/finetune_features.py write --tokenizer=MODEL \
        --data=GLUE --qnli=QNLI --squad=SQUAD --imdb=IMDB \
        --pairs pairs.tsv near.tsv --output=features
    python benchmarks/finetune_features.py score --features=features \
        --results=results --tokenizer=MODEL --squad=SQUAD

`write` reads the tasks whose folders or files are given. The folders are:

- `--data`: those of GLUE; SST-2, MRPC, RTE and STS-B are read
- `--qnli`: `train.tsv` and `dev.tsv`, as distributed
- `--squad`: `train-v1.1.json` and `dev-v1.1.json`
- `--imdb`: `train.tsv` and `test.tsv`, or `.gz`, with the columns `label` (0 or
  1) and `text`
- `--pairs`: tables with the columns `anchor` and `positive`, named after the
  tasks of `finetune_jax.py`

TASK.train.npz and TASK.dev.npz have the tokens of all texts without padding
(`ids`), the length of each text and the place where its second segment begins,
labels or positions, and in development sets `gold`.

`score` prints a table of three scores, medians and standard deviations of the
seeds: as `albert finetune --dev_selection=half`, where half of the development
set selects the epoch and the other half is scored; the mean of this score and
that of the first half with the epoch that the other half selects; and of the
whole set after the last epoch, the only one of questions, which need `--squad`
and `--tokenizer`.
"""

import argparse
import pathlib
import statistics
from typing import Any

import numpy as np
import report

from albert_tf.errors import InputError, exit_on_input_error
from albert_tf.finetuning.data import (
    TaskFiles,
    find_split,
    labelled_examples,
    load_data,
)
from albert_tf.finetuning.embedding.examples import EmbeddingExample
from albert_tf.finetuning.embedding.features import (
    TEXT_HASHES,
    training_features,
)
from albert_tf.finetuning.registry import known_task, make_task_type
from albert_tf.finetuning.results import DevSet
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    TextTask,
    text_task_config,
)
from albert_tf.text.tokenizer_files import load_tokenizer
from albert_tf.training.best_checkpoint import rank

LENGTHS = {
    "sst2": 64,
    "mrpc": 128,
    "rte": 256,
    "stsb": 128,
    "qnli": 128,
    "squad1.1": 384,
    "imdb": 1024,
}
GLUE = ("sst2", "mrpc", "rte", "stsb")
PAIR_LENGTH = 64
IMDB = TextTask(
    name="imdb",
    labels=("0", "1"),
    metrics=("accuracy",),
    text="text",
    label="label",
    files={"train": "train.tsv", "dev": "test.tsv"},
)


def parse_arguments():
    """Returns the flags."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write")
    write.add_argument("--tokenizer", required=True, help="folder of a model")
    write.add_argument("--data", help="folder of GLUE")
    write.add_argument("--qnli", help="folder of QNLI")
    write.add_argument("--imdb", help="folder of IMDb")
    write.add_argument("--pairs", nargs="*", default=[], type=pathlib.Path)
    write.add_argument("--output", required=True, type=pathlib.Path)
    score = commands.add_parser("score")
    score.add_argument("--features", required=True, type=pathlib.Path)
    score.add_argument("--results", required=True, type=pathlib.Path)
    score.add_argument("--tokenizer", help="folder of a model, for SQuAD")
    for command in (write, score):
        command.add_argument("--squad", help="folder of SQuAD 1.1")
    return parser.parse_args()


def task_type_of(name, tokenizer=None):
    """Returns the task type of a task of `LENGTHS`."""
    config = text_task_config(IMDB) if name == "imdb" else known_task(name)
    length = {"max_seq_length": LENGTHS[name]}
    return make_task_type(config.with_settings(length), tokenizer)


def squad_files(folder):
    """Returns the training and development file of SQuAD."""
    return [pathlib.Path(folder) / f"{x}-v1.1.json" for x in ("train", "dev")]


def save(path, features, **columns):
    """Writes features without padding, and prints their size."""
    lengths, segments = features.lengths, features.lengths.copy()
    for number, start in enumerate(features.starts[:-1]):
        types = features.types[start : start + lengths[number]]
        if types.any():
            segments[number] = types.argmax()
    np.savez(
        path,
        ids=features.ids.astype(np.uint16),
        lengths=lengths.astype(np.uint16),
        segment=segments.astype(np.uint16),
        **columns,
    )
    print(f"{path}: {len(features):,} texts, {len(features.ids):,} tokens")


def write_task(name, folder, tokenizer, output):
    """Writes the features of a task."""
    task_type = task_type_of(name, tokenizer)
    if name == "squad1.1":
        files = squad_files(folder)
    else:
        files = [
            find_split(task_type, split, data=folder)
            for split in ("train", "dev")
        ]
    data = load_data(
        task_type,
        TaskFiles(train=files[:1], dev=files[1:], on_bad_example="skip"),
    )
    save(output / f"{name}.train.npz", data.train, **data.train.columns)
    gold = {}
    if name != "squad1.1":
        labels = [example.label for example in data.dev]
        if task_type.task_config.labels:
            labels = list(map(task_type.labels.index, labels))
        gold["gold"] = np.array(labels)
    save(output / f"{name}.dev.npz", data.dev_features, **gold)


def write_pairs(path, examples, tokenizer, **columns):
    """Writes pairs of texts, with hashes that tell which texts are equal."""
    features = training_features(
        examples, tokenizer, max_seq_length=PAIR_LENGTH
    )
    save(path, features, hashes=features.columns[TEXT_HASHES], **columns)


def write_similarity(folder, tokenizer, output):
    """Writes STS-B as pairs of texts, each on its own, with scores."""
    task_type = task_type_of("stsb")
    for split in ("train", "dev"):
        found = find_split(task_type, split, data=folder)
        examples = labelled_examples(task_type, [found], "skip")
        pairs = [
            EmbeddingExample(id=x.id, texts=(x.text, x.pair), location="")
            for x in examples
        ]
        scores = np.array([x.label for x in examples], np.float32)
        path = output / f"stse.{split}.npz"
        write_pairs(path, pairs, tokenizer, scores=scores)


def write(flags):
    """Writes the features of the tasks whose data is given."""
    tokenizer = load_tokenizer(flags.tokenizer)
    if tokenizer.vocab_size > 2**16:
        raise InputError("the vocabulary has more than 65,536 pieces")
    flags.output.mkdir(parents=True, exist_ok=True)
    folders = dict.fromkeys(GLUE, flags.data)
    folders |= {"qnli": flags.qnli, "squad1.1": flags.squad}
    folders["imdb"] = flags.imdb
    for name, folder in folders.items():
        if folder:
            write_task(name, folder, tokenizer, flags.output)
    if flags.data:
        write_similarity(flags.data, tokenizer, flags.output)
    task_type = make_task_type(known_task("embedding"))
    for path in flags.pairs:
        examples = labelled_examples(task_type, [path])
        output = flags.output / f"{path.stem}.train.npz"
        write_pairs(output, examples, tokenizer)


def score_logits(name, gold, epochs):
    """Returns scores of each seed: of one half, both halves and the whole set.

    Args:
      name: name of the task.
      gold: class indices or numbers of the examples.
      epochs: logits of each epoch, `[seeds, examples, outputs]`.
    """
    task_type = task_type_of(name)
    labels = task_type.task_config.labels
    metric = task_type.task_config.key_metric
    examples = [
        TextExample(
            id="", text="", location="", label=labels[x] if labels else float(x)
        )
        for x in gold
    ]
    features: Any = None  # These scores need none.
    half, whole = (
        DevSet(examples=examples, features=features, selection=selection)
        for selection in ("half", "whole")
    )
    held, both, last = [], [], []
    for seed in range(len(epochs[0])):
        logged = []
        for logits in epochs:
            outputs = [
                {"logits": row} if labels else {"value": row[0]}
                for row in logits[seed]
            ]
            predictions = task_type.predictions(examples, features, outputs)
            logged.append(half.evaluate(task_type, predictions))
        best = max(logged, key=lambda x: rank(metric, x[metric], x["loss"]))
        held.append(half.reported(best))
        # The halves in each other's place.
        swapped = max(
            logged,
            key=lambda x: rank(
                metric, half.reported(x)[metric], half.reported(x)["loss"]
            ),
        )
        both.append({n: (x + swapped[n]) / 2 for n, x in held[-1].items()})
        last.append(whole.evaluate(task_type, predictions))
    return held, both, last


def score_squad(flags, epochs):
    """Returns F1 and exact match of each seed at the last epoch."""
    if not flags.squad or not flags.tokenizer:
        return []
    tokenizer = load_tokenizer(flags.tokenizer)
    task_type = task_type_of("squad1.1", tokenizer)
    examples = labelled_examples(task_type, squad_files(flags.squad)[1:])
    features = task_type.features(examples, labelled=False)
    scores = []
    for logits in epochs[-1].astype(np.float32):
        windows = np.split(logits, features.starts[1:-1])
        outputs = [
            {"start_logits": x[:, 0], "end_logits": x[:, 1]} for x in windows
        ]
        predictions = task_type.predictions(examples, features, outputs)
        scores.append(task_type.scores(examples, predictions))
    return scores


def described(name, scores):
    """Formats the scores of seeds, such as "accuracy 83.1 ± 0.4"."""
    if not scores:
        return ""
    task_type, parts = task_type_of(name), []
    for metric in task_type.task_config.metrics:
        values = [100 * x[metric] / task_type.perfect_score for x in scores]
        parts.append(f"{metric} {statistics.median(values):.1f}")
        if len(values) > 1:
            parts[-1] += f" ± {statistics.stdev(values):.1f}"
    return ", ".join(parts)


def score(flags):
    """Prints a table of the scores of all results in a folder."""
    rows = []
    for path in sorted(flags.results.glob("*.npz")):
        if path.stem.endswith(".weights"):
            continue
        name = path.stem.partition("_")[0]
        name = "squad1.1" if name == "squad" else name
        with np.load(path) as file:
            epochs = list(file.values())
        if name == "squad1.1":
            scores = [], [], score_squad(flags, epochs)
        elif name in LENGTHS:
            with np.load(flags.features / f"{name}.dev.npz") as file:
                scores = score_logits(name, file["gold"], epochs)
        else:
            raise InputError(f"{path}: the name does not begin with a task's")
        columns = [described(name, column) for column in scores]
        rows.append([path.stem, str(len(epochs[0])), *columns])
    print(f"- `{report.command()}`\n")
    header = ["job", "seeds", "half", "both halves", "whole, last epoch"]
    print(report.table(header, rows))


def main():
    """Runs the command."""
    flags = parse_arguments()
    {"write": write, "score": score}[flags.command](flags)


if __name__ == "__main__":
    with exit_on_input_error("finetune_features"):
        main()
