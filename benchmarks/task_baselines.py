"""Bag-of-words baselines that fine-tuned models should beat.

TF-IDF and logistic regression by scikit-learn, for texts those of `albert
finetune`, but trained on all examples, with albert_tf's readers and metrics; no
neural network and no pretraining. The strength of regularization is chosen on a
tenth of the training data.
The length of CMRC's and SQuAD's
candidates, and the number of sentences with candidates, were chosen so that
most answers of dev are candidates. Tasks:

- one text (SST-2, CoLA, IMDb): TF-IDF of words and pairs of words.
- two texts (MRPC, RTE): the absolute difference and the product of their
  vectors, and six similarities: cosine of words, cosine of 3 to 5 characters,
  shared words over those of the first, of the second and of both, difference of
  the lengths.
- STS-B: ridge regression on these similarities and their squares.
- options (DREAM, RACE): logistic regression on the words that options share
  with the passage (`choice_baseline.py`).
- spans (SQuAD, CMRC): logistic regression on runs of words in the three
  sentences most similar to the question (`span_baseline.py`).

Example:
  python benchmarks/task_baselines.py --data=data --tasks=sst2,mrpc
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import choice_baseline
import numpy as np
import report
import scipy
import sklearn
import span_baseline
from sklearn.model_selection import GroupKFold

from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.multiple_choice.examples import (
    MultipleChoiceExample,
    read_dream,
    read_race,
)
from albert_tf.finetuning.question_answering.examples import read_squad
from albert_tf.finetuning.question_answering.metrics import cmrc, squad_v1
from albert_tf.finetuning.task_config import split_path
from albert_tf.finetuning.text_classification.bag_of_words import (
    bag_of_words_predictions,
)
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    TextTask,
    read_texts,
    text_task_from_columns,
)
from albert_tf.finetuning.text_classification.glue import GLUE
from albert_tf.finetuning.text_classification.metrics import (
    classification_metrics,
)
from albert_tf.finetuning.text_classification.task import text_task_config

# Some files lack a text, or repeat an id; such rows are listed at the end.
BAD = BadExamples("skip")

# Training set, scored set, features, scores (0 to 1).
Result = tuple[str, str, str, dict[str, float]]


def glue(name: str, data: pathlib.Path) -> Iterator[Result]:
    """Trains on train, scores on dev."""
    task = GLUE[name]
    paths = [
        split_path(text_task_config(task), data / "glue", x)
        for x in ("train", "dev")
    ]
    yield from texts(task, paths, "dev")


def imdb(data: pathlib.Path) -> Iterator[Result]:
    """Trains on the 25,000 reviews of train, scores the 25,000 of test."""
    folder = data / "imdb"
    paths = [folder / "train.tsv.gz", folder / "test.tsv.gz"]
    task = text_task_from_columns(paths[:1], {"text": "text", "label": "label"})
    yield from texts(task, paths, "test")


def texts(
    task: TextTask, paths: Sequence[pathlib.Path], split: str
) -> Iterator[Result]:
    """Trains on the first file and scores the second."""
    train, scored = (
        list(read_texts(task, path, bad=BAD, labelled=True)) for path in paths
    )
    how, scores = bag_of_words(task, train, scored)
    yield f"train ({len(train):,})", f"{split} ({len(scored):,})", how, scores


def bag_of_words(
    task: TextTask, train: Sequence[TextExample], scored: Sequence[TextExample]
) -> tuple[str, dict[str, float]]:
    """Returns a description of the features, and the task's scores."""
    how = "words and pairs of words"
    if task.pair is not None:
        how = "difference, product, similarities"
        if task.labels is None:
            how = "similarities and their squares"

    def score(predictions: np.ndarray, values: np.ndarray) -> float:
        key = task.metrics[0]
        return classification_metrics([key], predictions, values)[key]

    targets, truth = (
        np.array(
            [
                float(str(x.label))
                if task.labels is None
                else task.labels.index(x.label)
                for x in part
            ]
        )
        for part in (train, scored)
    )
    predicted = bag_of_words_predictions(train, targets, scored, score)
    return how, classification_metrics(task.metrics, predicted, truth)


def dream(data: pathlib.Path) -> Iterator[Result]:
    """Trains on train, scores dev and test."""
    parts = {
        split: list(read_dream(data / "dream" / f"{split}.json", bad=BAD))
        for split in ("train", "dev", "test")
    }
    predict = choice_baseline.fit(parts["train"])
    for split in ("dev", "test"):
        scores = choice_scores(parts[split], predict(parts[split]))
        how = "shares and similarities of words"
        yield (
            f"train ({len(parts['train']):,})",
            f"{split} ({len(parts[split]):,})",
            how,
            scores,
        )


def race(data: pathlib.Path) -> Iterator[Result]:
    """Trains on DREAM, then cross-validates on five folds of the sample."""
    sample = list(read_race(data / "race-sample/race.jsonl", bad=BAD))
    training = list(read_dream(data / "dream/train.json", bad=BAD))
    how = "shares and similarities of words"
    scored = f"all ({len(sample):,})"
    predictions = choice_baseline.fit(training)(sample)
    yield (
        f"DREAM train ({len(training):,})",
        scored,
        how,
        choice_scores(sample, predictions),
    )
    passages = [example.passage for example in sample]
    for train, rest in GroupKFold(5).split(sample, groups=passages):
        predict = choice_baseline.fit([sample[i] for i in train])
        predictions[rest] = predict([sample[i] for i in rest])
    yield (
        "the other four fifths, five times",
        scored,
        how,
        choice_scores(sample, predictions),
    )


def choice_scores(
    examples: Sequence[MultipleChoiceExample], predictions: np.ndarray
) -> dict[str, float]:
    """Returns the accuracy, in all and in each group."""
    labels = np.array([example.label for example in examples])
    groups = [example.group for example in examples]
    scores = classification_metrics(["accuracy"], predictions, labels)
    for group in sorted(set(filter(None, groups)), reverse=True):
        members = np.array([each == group for each in groups])
        scores[group] = classification_metrics(
            ["accuracy"], predictions[members], labels[members]
        )["accuracy"]
    return scores


def squad(data: pathlib.Path) -> Iterator[Result]:
    """Trains on 5,000 questions of train, scores dev."""
    folder = data / "squad"
    names = ("train-v1.1.reconstructed.json.gz", "dev-v1.1.json.gz")
    train, dev = (list(read_squad(folder / name, bad=BAD)) for name in names)
    chosen = np.random.default_rng(0).choice(len(train), 5000, replace=False)
    train = [train[i] for i in chosen]
    yield spans(train, dev, "dev", span_baseline.ENGLISH, squad_v1)


def cmrc2018(data: pathlib.Path) -> Iterator[Result]:
    """Trains on trial and scores dev, and vice versa, as there is no train."""
    trial, dev = (
        list(
            read_squad(
                data / "cmrc2018" / f"cmrc2018_{split}.json",
                bad=BAD,
                need_positions=False,
            )
        )
        for split in ("trial", "dev")
    )
    chinese = span_baseline.CHINESE
    result = spans(trial, dev, "dev", chinese, cmrc)
    yield (f"trial ({len(trial):,})", *result[1:])
    result = spans(dev, trial, "trial", chinese, cmrc)
    yield (f"dev ({len(dev):,})", *result[1:])


def spans(train, scored, split, language, metric: Callable) -> Result:
    """Trains on questions and scores others."""
    predictions = span_baseline.fit(train, language)(scored)
    answers = {x.id: [y.text for y in x.answers] for x in scored}
    scores = metric(answers, predictions)
    return (
        f"of train ({len(train):,})",
        f"{split} ({len(scored):,})",
        "runs of words by likeness, shape and neighbours",
        {name: scores[name] / 100 for name in ("f1", "exact_match")},
    )


TASKS: dict[str, Callable[[pathlib.Path], Iterable[Result]]] = {
    "sst2": lambda data: glue("sst2", data),
    "mrpc": lambda data: glue("mrpc", data),
    "rte": lambda data: glue("rte", data),
    "cola": lambda data: glue("cola", data),
    "stsb": lambda data: glue("stsb", data),
    "imdb": imdb,
    "squad": squad,
    "race": race,
    "dream": dream,
    "cmrc": cmrc2018,
}


def main() -> None:
    """Trains and scores every task, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder of all data")
    parser.add_argument("--tasks", default=",".join(TASKS))
    flags = parser.parse_args()
    machine = report.machine()
    rows = []
    for name in flags.tasks.split(","):
        started = time.process_time()
        for trained, scored, how, scores in TASKS[name](
            pathlib.Path(flags.data)
        ):
            seconds = time.process_time() - started
            shown = ", ".join(f"{x} {100 * y:.1f}" for x, y in scores.items())
            rows.append([name, trained, scored, how, shown, f"{seconds:.0f}"])
            print(*rows[-1], sep="; ", flush=True)
            started = time.process_time()
    header = ["task", "trained on", "scored on", "features", "scores", "CPU s"]
    print(report.table(header, rows))
    versions = {"scikit-learn": sklearn.__version__, "scipy": scipy.__version__}
    print(report.description(machine, versions))
    print(f"- {BAD.summary()}")


if __name__ == "__main__":
    main()
