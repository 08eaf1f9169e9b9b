"""The demo: from text to a pretrained model, its exports and a classifier."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from albert_tf.analysis.curves import plot_runs
from albert_tf.analysis.parameters import count_parameters
from albert_tf.analysis.runs import read_runs
from albert_tf.config import AlbertConfig
from albert_tf.data.create_data import create_pretraining_data
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.documents import read_documents
from albert_tf.data.records import open_records
from albert_tf.data.text_files import find_text_files
from albert_tf.demo.config import DemoConfig
from albert_tf.demo.corpora import (
    label_passages,
    write_default_text,
    write_user_text,
)
from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.encoder import export_encoder
from albert_tf.exporting.export import export
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.optional_packages import import_packages
from albert_tf.pretrained_models import DEFAULT
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.train import pretrain
from albert_tf.tables import text_table
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

_DEFAULT_OUTPUT = "runs/demo"
_MODEL = "albert_mini"
_MAX_SEQ_LENGTH = 64
_SHORT_SEQ_LENGTH = 32  # of the first phase of pretraining
_HUB_CLASSIFIER = pathlib.Path(__file__).with_name("hub_classifier.py")


def run_demo(config: DemoConfig) -> dict[str, Any]:
    """Runs the whole chain and prints a summary.

    Returns:
      The summary as a dictionary, which is also written to `summary.json`.

    Raises:
      InputError: if the output folder is not empty, a package is missing, the
        text files do not exist or cannot be read, or they are too small for the
        vocabulary or the classifier. Nothing is left behind then.
    """
    import_packages(
        ["tensorflow_hub", "tf_keras", "matplotlib"],
        "the demo's classifier and curves",
    )
    if config.input is not None:
        find_text_files(config.input)  # Raises before anything is written.
    output = _unused_folder() if config.output is None else config.output
    is_new = not os.path.exists(output)
    folder = _make_folder(output)
    stages: dict[str, float] = {}
    try:
        files, tokenizer, manifest = _write_records(config, folder, stages)
        classifier = _sample_passages(config, files, folder)
    except InputError:
        # So that the command can be repeated with other settings.
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        if is_new:
            folder.rmdir()
        raise
    model = AlbertConfig.from_official(
        _MODEL,
        vocab_size=tokenizer.vocab_size,
        max_position_embeddings=_MAX_SEQ_LENGTH,
    )
    with _stage(stages, "4 pretraining", f"{config.num_train_steps} steps"):
        _pretrain(config, model, folder)
    with _stage(stages, "5 evaluation", "score the held-out documents"):
        scores = evaluate_pretraining(folder / "run", folder / "data")
        runs = read_runs([folder / "run"])
        records = open_records(folder / "data", "heldout")
        plot_runs(runs, folder / "curves.png", records.baselines())
    hubs = {_MODEL: folder / "hub", DEFAULT: folder / DEFAULT}
    with _stage(stages, "6 export", "write the two SavedModels"):
        export(
            ExportConfig(model=folder / "run", output=hubs[_MODEL] / "encoder")
        )
        _export_preprocessor(folder / "run", hubs[_MODEL])
    with _stage(stages, "7 classifier", "hub.KerasLayer in a new process"):
        classifier["runs"] = _train_classifier(folder, _MODEL, hubs[_MODEL])
    with _stage(
        stages, f"8 {DEFAULT}", "the same with the packaged model, minutes"
    ):
        encoder = AlbertEncoder.from_pretrained(DEFAULT)
        export_encoder(
            encoder, hubs[DEFAULT] / "encoder", tokenizer=encoder.tokenizer
        )
        _export_preprocessor(DEFAULT, hubs[DEFAULT])
        classifier["runs"] += _train_classifier(folder, DEFAULT, hubs[DEFAULT])
    summary = {
        "corpus": manifest["splits"]["train"]["counts"],
        "parameters": count_parameters(model).total,
        "scores": scores,
        "classifier": classifier,
        "seconds": stages,
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    text = _format_summary(summary)
    (folder / "summary.txt").write_text(text + "\n", "utf-8")
    print(f"\n{text}\n\nThe curves are in {folder / 'curves.png'}.")
    print("\nNext, for example:")
    for command in next_commands(folder):
        print(f"  {command}")
    return summary


def _write_records(config, folder, stages):
    """Writes text, vocabulary and records: the first three stages."""
    with _stage(stages, "1 text", "collect documents"):
        files = _write_text(config, folder / "text")
    with _stage(stages, "2 vocabulary", f"train {config.vocab_size} pieces"):
        tokenizer = _train_tokenizer(config, files, folder / "vocab")
    with _stage(
        stages, "3 records", "cut the text to sequences, hold out a part"
    ):
        manifest = _create_data(
            config, files, tokenizer, folder / "data", _MAX_SEQ_LENGTH
        )
        _create_data(
            config, files, tokenizer, folder / "data-short", _SHORT_SEQ_LENGTH
        )
    return files, tokenizer, manifest


def next_commands(folder: pathlib.Path) -> list[str]:
    """Returns commands to try with what the demo has written."""
    run, table = (
        shlex.quote(os.fspath(folder / name))
        for name in ("run", "classifier-train.tsv")
    )
    tuned = shlex.quote(os.fspath(folder / "classifier"))
    albert = "albert"
    if shutil.which(albert) is None:  # As in a folder of `make venv`.
        albert = f"{shlex.quote(sys.executable)} -m albert_tf"
    return [
        f'{albert} fill-mask --model={run} --text="The [MASK] is a list."',
        f"{albert} finetune --task=text --train={table} --label_column=0 "
        f"--text_column=1 --init_from={run} --output={tuned} "
        f"--max_seq_length={_MAX_SEQ_LENGTH} --num_train_epochs=1",
        f'echo "A list of words." | {albert} predict --model={tuned}',
    ]


def _unused_folder() -> str:
    """Returns the default folder, with a number appended if it exists."""
    numbered = (f"{_DEFAULT_OUTPUT}-{number}" for number in itertools.count(2))
    names = itertools.chain([_DEFAULT_OUTPUT], numbered)
    return next(name for name in names if not os.path.exists(name))


def _make_folder(output: str | os.PathLike[str]) -> pathlib.Path:
    folder = pathlib.Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"output {folder} is not empty: choose another folder or remove it"
        )
    for name in ("text", "vocab", "hub", DEFAULT):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _stage(
    stages: dict[str, float], name: str, description: str
) -> Iterator[None]:
    """Announces a stage and records its wall time."""
    print(f"== {name}: {description}", flush=True)
    started = time.monotonic()
    yield
    stages[name] = time.monotonic() - started


def _write_text(config: DemoConfig, folder: pathlib.Path):
    if config.input is None:
        return write_default_text(folder)
    return write_user_text(folder, config.input, config)


def _train_tokenizer(config, files, folder) -> Tokenizer:
    sentences = (
        sentence
        for file in files
        for document in read_documents(file)
        for sentence in document
    )
    path = train_vocabulary(
        sentences,
        folder / ("vocab" if config.model_type == "wordpiece" else "spiece"),
        VocabularyConfig(
            vocab_size=config.vocab_size, model_type=config.model_type
        ),
    )
    return AlbertTokenizer.from_file(path)


def _create_data(config, files, tokenizer, folder, length) -> dict[str, Any]:
    return create_pretraining_data(
        PretrainingDataConfig(
            input=[str(file) for file in files],
            output=folder,
            tokenizer=tokenizer,
            max_seq_length=length,
            # Sentence order stays at chance in so few steps.
            sentence_order="none",
            heldout_fraction=0.05,
            seed=config.seed,
            num_workers=min(2, os.cpu_count() or 1),
        ),
        progress=True,
    )


def _pretrain(config, model, folder) -> None:
    steps = config.num_train_steps
    result = pretrain(
        PretrainConfig(
            input=str(folder / "data"),
            output=folder / "run",
            model=model,
            num_train_steps=steps,
            seed=config.seed,
            log_steps=max(1, steps // 60),
            save_checkpoints_steps=max(1, steps // 4),
            eval_steps=max(1, steps // 12),
            # One layer and short records leave the plateau of word frequencies
            # first: docs/small_models.md.
            phases=[
                {
                    "share": 0.7,
                    "input": str(folder / "data-short"),
                    "train_batch_size": 64,
                    "num_hidden_layers": 1,
                    "ngram": 1,
                },
                {"share": 0.15, "num_hidden_layers": 2, "ngram": 1},
                {},  # the model's own depth
            ],
            train_batch_size=32,
            optimizer="adamw",
            learning_rate=1e-3,
            schedule="warmup_stable_decay",
            num_warmup_steps=steps // 10,
            decay_steps=steps // 10,
            max_eval_steps=10,
        )
    )
    if result.interrupted:
        raise KeyboardInterrupt


def _export_preprocessor(source, hub) -> None:
    export(
        ExportConfig(
            model=source,
            output=hub / "preprocessor",
            kind="preprocessor",
            seq_length=_MAX_SEQ_LENGTH,
        )
    )


def _sample_passages(config, files, folder) -> dict[str, Any]:
    """Writes passages for training and testing, and describes them."""
    examples = config.classifier_examples
    passages = label_passages(files, examples, examples // 3, config.seed)
    for name in ("train", "test"):
        rows = getattr(passages, name)
        (folder / f"classifier-{name}.tsv").write_text(
            "".join(f"{label}\t{text}\n" for label, text in rows), "utf-8"
        )
    labels = [label for label, _ in passages.test]
    return {
        "examples": len(passages.train),
        "sources": passages.sources,
        "majority": max(labels.count(0), labels.count(1)) / len(labels),
    }


def _train_classifier(folder, model, hub) -> list[dict[str, Any]]:
    """Trains with frozen and trained encoder, in a process of its own."""
    result = folder / f"classifier-{model}.json"
    command = [
        sys.executable,
        _HUB_CLASSIFIER,
        *(hub / kind for kind in ("preprocessor", "encoder")),
        *(folder / f"classifier-{name}.tsv" for name in ("train", "test")),
        result,
    ]
    # TensorFlow's warnings are of interest only if the script fails.
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
        if process.wait():
            errors.seek(0)
            raise RuntimeError(
                f"training the classifier failed: {errors.read()[-2000:]}"
            )
    runs = json.loads(result.read_text())
    return [{"model": model, **run} for run in runs]


def _format_summary(summary: dict[str, Any]) -> str:
    scores, corpus = summary["scores"], summary["corpus"]
    unigram = scores["mlm_unigram_accuracy"]
    classifier = summary["classifier"]
    first, second = classifier["sources"]
    rows = [
        (
            "training text",
            f"{corpus['documents']:,} documents",
            f"{corpus['tokens']:,} tokens",
        ),
        ("model", _MODEL, f"{summary['parameters']:,} parameters"),
        (
            "masked words, held out",
            f"{scores['mlm_accuracy']:.1%} right",
            f"most frequent token: {unigram:.1%}; "
            f"{scores['mlm_accuracy'] / unigram:.1f} times that",
        ),
    ]
    for run in classifier["runs"]:
        kind = "fine-tuned" if run["trainable"] else "frozen"
        rows.append(
            (
                f"classifier, {kind} {run['model']}",
                f"{run['test_accuracy'][-1]:.1%} right",
                f"{first} or {second}? chance: {classifier['majority']:.1%}",
            )
        )
    rows += [
        (name, f"{seconds:.0f} s", "")
        for name, seconds in summary["seconds"].items()
    ]
    total = sum(summary["seconds"].values())
    rows.append(("all", f"{total:.0f} s", ""))
    return text_table(rows, left=3)
