import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.token_classification.metrics import (
    SEQUENCE_METRICS,
    sequence_metrics,
)


def test_entities_must_match_exactly():
    labels = [
        ["B-PER", "I-PER", "O", "B-geo-loc"],
        # Entities end with their sentence, so this begins another one.
        ["I-geo-loc", "B-ORG", "I-ORG", "I-ORG", "O"],
    ]
    predictions = [
        ["B-PER", "I-PER", "O", "B-geo-gov"],  # one right, one of another type
        ["O", "B-ORG", "I-ORG", "O", "O"],  # one missing, one too short
    ]
    scores = sequence_metrics(SEQUENCE_METRICS, predictions, labels)
    assert scores == pytest.approx(
        {
            "f1": 2 * 1 / (4 + 3),
            "precision": 1 / 3,
            "recall": 1 / 4,
            "accuracy": 6 / 9,
        }
    )
    assert all(type(score) is float for score in scores.values())


@pytest.mark.parametrize(
    "labels",
    [
        ["O", "I-PER", "I-PER", "B-PER", "I-LOC"],  # IOB1
        ["O", "B-PER", "I-PER", "B-PER", "B-LOC"],  # IOB2, BIO
        ["O", "B-PER", "E-PER", "S-PER", "S-LOC"],  # IOBES
        ["O", "B-PER", "L-PER", "U-PER", "U-LOC"],  # BILOU
    ],
)
def test_all_schemes_are_supported(labels):
    iob2 = ["O", "B-PER", "I-PER", "B-PER", "B-LOC"]
    assert sequence_metrics(["f1"], [iob2], [labels]) == {"f1": 1.0}


@pytest.mark.filterwarnings("error")
def test_no_entities():
    scores = sequence_metrics(SEQUENCE_METRICS, [["O", "O"]], [["O", "O"]])
    assert scores == {"f1": 0, "precision": 0, "recall": 0, "accuracy": 1}


def test_other_labels_only_have_an_accuracy():
    labels, predictions = [["DT", "NN", "VBZ"]], [["DT", "NN", "NN"]]
    scores = sequence_metrics(["accuracy"], predictions, labels)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="is not an entity label"):
        sequence_metrics(["f1"], predictions, labels)


@pytest.mark.parametrize(
    ("names", "predictions", "labels", "message"),
    [
        (["em"], [["O"]], [["O"]], "metric 'em': must be one of f1, precis"),
        (["f1"], [["O"]], [["O"], ["O"]], "of 1 sentences, labels of 2"),
        (
            ["f1"],
            [["O"], ["O"]],
            [["O"], ["O", "O"]],
            "sentence 1: 1 predictions and 2 labels",
        ),
        (["accuracy"], [[]], [[]], "there are none"),
        (["f1"], [["B"]], [["O"]], "predictions: 'B' is not an entity label"),
    ],
)
def test_invalid_inputs(names, predictions, labels, message):
    with pytest.raises(InputError, match=message):
        sequence_metrics(names, predictions, labels)
