"""Exports of fine-tuned models, against the predictions of `Predictor`."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.data.examples.example import (
    ChoiceExample,
    TextExample,
    WordsExample,
)
from albert_tf.errors import InputError
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.export_checkpoint import export_checkpoint
from albert_tf.tasks.finetuning.prediction import Predictor

pytestmark = pytest.mark.long

CONSUMER = (
    pathlib.Path(__file__).parents[2] / "export/consumers/task_in_tensorflow.py"
)
LENGTHS = {"max_seq_length": 24, "max_qa_length": 12}
TEXTS = [
    "A class of functions",
    "",
    "\u00c9tude na\u00efve: 12,345 and 7,000 m\u00f3dules, Stra\u00dfe",
    "\u65e5\u672c\u8a9e \ufb01le \u039f\u0394\u039f\u03a3",
    "The value of the object is a string of many names. " * 6,
    "[CLS] module [SEP] <pad>",
]
PAIRS = [*TEXTS[1:], TEXTS[0]]
OPTIONS = ("a name", "\u00e9 1,000", "", "the whole value of the list " * 5)


def _texts(pair):
    return [
        TextExample(id=str(n), text=x, pair=y if pair else None, place="")
        for n, (x, y) in enumerate(zip(TEXTS, PAIRS, strict=True))
    ]


def _choices():
    return [
        ChoiceExample(
            id=str(n), passage=x, question=y, options=OPTIONS, place=""
        )
        for n, (x, y) in enumerate(
            zip(TEXTS, ["Which _?", *PAIRS[1:]], strict=True)
        )
    ]


def _words():
    return [
        WordsExample(id=str(n), words=tuple(x.split()), place="")
        for n, x in enumerate(TEXTS)
    ]


EXAMPLES = {
    "sst2": _texts(False),
    "mrpc": _texts(True),
    "stsb": _texts(True),
    "dream": _choices(),
    "ner": _words(),
}


def inputs_of(name):
    examples = EXAMPLES[name]
    if name == "dream":
        return {
            "context": [x.passage for x in examples],
            "question": [x.question for x in examples],
            "options": [x.options for x in examples],
        }
    if name == "ner":
        return {"text": TEXTS}
    pair = {"text_pair": PAIRS} if examples[0].pair is not None else {}
    return {"text": TEXTS, **pair}


def outputs_of(kind, examples, predictions):
    """Returns the outputs that predictions stand for."""
    records = [
        kind.record(example, prediction)
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    name = kind.description.kind
    if name == "number":
        return {"value": predictions}
    if name == "words":
        longest = max(len(x["words"]) for x in records)
        for record, prediction in zip(records, predictions, strict=True):
            missing = longest - len(record["words"])
            record["words"] += [""] * missing
            record["labels"] += [""] * missing
            record["probabilities"] = np.pad(
                prediction, [(0, missing), (0, 0)]
            ).tolist()
        return {
            key: [record[key] for record in records]
            for key in ("words", "labels", "probabilities")
        }
    outputs = {"probabilities": [list(map(float, x)) for x in predictions]}
    label = {"classes": "label", "choices": "choice"}[name]
    return outputs | {label: [record["label"] for record in records]}


def test_predictions_are_the_predictors(
    make_finetuned, assert_answers_are_compared, tmp_path
):
    arguments = []
    for name, examples in EXAMPLES.items():
        folder = make_finetuned(name, **LENGTHS)
        predictor = Predictor([folder], batch_size=4)
        predictions = predictor(examples).predictions
        export_checkpoint(folder, tmp_path / name, "task")
        description = predictor.kind.description
        expected = {
            "inputs": inputs_of(name),
            "outputs": outputs_of(predictor.kind, examples, predictions),
            "labels": description.labels,
            "trained": "value" if name == "stsb" else "logits",
        }
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(expected))
        arguments += [tmp_path / name, path]

        values = json.loads((tmp_path / name / "export.json").read_text())
        assert values["kind"] == "task"
        assert values["task"] == json.loads(description.to_json())
        assert values["packed"] is True
        assert values["signatures"]["serving_default"]["inputs"] == list(
            expected["inputs"]
        )
        for file in (tmp_path / name).rglob("*"):
            assert file.is_dir() or b"a-private-pl" not in file.read_bytes()
        assert_answers_are_compared(folder, tmp_path / name)
    result = subprocess.run(
        [sys.executable, CONSUMER, tmp_path, *arguments],
        # Elsewhere than in the repository: nothing of it can be imported.
        cwd=pathlib.Path(sys.executable).anchor,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]


def test_another_length(make_finetuned, tmp_path):
    folder = make_finetuned("sst2", **LENGTHS)
    export_checkpoint(
        folder,
        tmp_path / "short",
        "task",
        ExportConfig(seq_length=8, packed=False),
    )
    values = json.loads((tmp_path / "short" / "export.json").read_text())
    assert values["task"]["settings"]["max_seq_length"] == 8
    assert values["packed"] is False
    with pytest.raises(InputError, match="max_seq_length=41 must be at most"):
        export_checkpoint(
            folder, tmp_path / "new", "task", ExportConfig(seq_length=41)
        )
    assert not (tmp_path / "new").exists()


def test_sources_that_do_not_fit(make_finetuned, tokenizer, tmp_path):
    words = make_finetuned("ner", **LENGTHS)
    with pytest.raises(InputError, match="ner has no pooler, so it gives no"):
        export_checkpoint(words, tmp_path / "new", "text_encoder")
    model = AlbertEncoder.from_pretrained(words, new_head=True)
    model.save_pretrained(tmp_path / "encoder", tokenizer)
    with pytest.raises(InputError, match="encoder: no fine-tuned model"):
        export_checkpoint(tmp_path / "encoder", tmp_path / "new", "task")
    assert not (tmp_path / "new").exists()
