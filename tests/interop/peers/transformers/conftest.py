"""The same models twice: ours, and PyTorch's ALBERT of transformers."""

import dataclasses
import logging
import warnings

import numpy as np
import pytest

from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer

# Of outputs, absolute; the largest difference seen is 4.2e-6, after 12 blocks.
TOLERANCE = 2e-5

ACTIVATIONS = {"gelu_tanh": "gelu_new", "gelu_erf": "gelu", "relu": "relu"}


@dataclasses.dataclass(frozen=True)
class Pair:
    """Our class and theirs, and what makes them the same model.

    Attributes:
      ours: the class.
      theirs: name of the class.
      heads: what our tables call its heads.
      arguments: of ours.
      settings: of their config.
      opening: arguments of our `from_pretrained`.
    """

    ours: type
    theirs: str
    heads: tuple[str, ...] = ()
    arguments: dict = dataclasses.field(default_factory=dict)
    settings: dict = dataclasses.field(default_factory=dict)
    opening: dict = dataclasses.field(default_factory=dict)


_LABELS = ("no", "maybe", "yes")
_LABELLED = {
    "arguments": {"num_labels": 3, "labels": _LABELS, "dropout": 0.25},
    "settings": {
        "id2label": dict(enumerate(_LABELS)),
        "label2id": {label: i for i, label in enumerate(_LABELS)},
        "classifier_dropout_prob": 0.25,
    },
}
PAIRS = {
    "encoder": Pair(AlbertEncoder, "AlbertModel"),
    "pretrainer": Pair(
        AlbertPretrainer, "AlbertForPreTraining", ("mlm_head", "sop_head")
    ),
    "masked_lm": Pair(
        AlbertPretrainer,
        "AlbertForMaskedLM",
        ("mlm_head",),
        arguments={"sop_head": False, "pooler": False},
        opening={"sop_head": False},
    ),
    "regression": Pair(
        AlbertClassifier,
        "AlbertForSequenceClassification",
        ("classifier_head",),
        arguments={"num_labels": 1},
        settings={"num_labels": 1, "problem_type": "regression"},
    ),
    "classifier": Pair(
        AlbertClassifier,
        "AlbertForSequenceClassification",
        ("classifier_head",),
        **_LABELLED,
    ),
    "token_classifier": Pair(
        AlbertTokenClassifier,
        "AlbertForTokenClassification",
        ("token_head",),
        **_LABELLED,
    ),
    "span_labeler": Pair(
        AlbertQuestionAnswering,
        "AlbertForQuestionAnswering",
        ("span_head",),
        arguments={"head": "v1"},
    ),
    "multiple_choice": Pair(
        AlbertMultipleChoice, "AlbertForMultipleChoice", ("choice_head",)
    ),
}


@pytest.fixture(params=PAIRS.values(), ids=PAIRS.keys())
def pair(request):
    """Each of `PAIRS` in turn."""
    return request.param


@pytest.fixture
def hf(caplog):
    """Transformers, as these tests use it."""
    pytest.importorskip("torch")
    peer = Peer(pytest.importorskip("transformers"), caplog)
    log = peer.transformers.utils.logging
    log.enable_propagation()  # so that pytest sees it
    log.disable_progress_bar()
    yield peer
    log.enable_progress_bar()
    log.disable_propagation()


class Peer:
    """Makes, opens, runs and compares models of transformers."""

    def __init__(self, transformers, caplog):
        self.transformers = transformers
        self._caplog = caplog

    def config(self, config, **settings):
        """Our config -> theirs."""
        fields = config.to_dict()
        del fields["sharing"], fields["project_equal_sizes"]
        fields["hidden_act"] = ACTIVATIONS[config.hidden_act]
        return self.transformers.AlbertConfig(**fields, **settings)

    def model(self, name, config, **settings):
        """Makes a model with random weights, as `random_model` does ours."""
        import torch

        settings = self.config(config, **settings)
        model = getattr(self.transformers, name)(settings)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for path, weight in model.named_parameters():
                mean, deviation = 0.0, 0.15
                if path.endswith("bias"):
                    deviation = 0.1
                elif path.lower().endswith("norm.weight"):
                    mean, deviation = 1.0, 0.2
                weight.normal_(mean, deviation, generator=generator)
        if not config.has_embedding_projection:
            projection = model.base_model.encoder.embedding_hidden_mapping_in
            torch.nn.init.eye_(projection.weight)
            torch.nn.init.zeros_(projection.bias)
        return model.eval()

    def open(self, name, folder):
        """Opens a model, which must go without a word of complaint."""
        self._caplog.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model, found = self.load(name, folder)
        assert set(found) >= {
            "missing_keys",
            "unexpected_keys",
            "mismatched_keys",
        }
        assert not any(found.values()), found
        assert self.complaints() == ""
        return model

    def load(self, name, folder, **arguments):
        """Opens a model; returns it and what transformers found."""
        model, found = getattr(self.transformers, name).from_pretrained(
            folder, output_loading_info=True, **arguments
        )
        return model.eval(), found

    def complaints(self):
        """Returns what transformers logged as a warning or worse."""
        return "\n".join(
            record.getMessage()
            for record in self._caplog.records
            if record.levelno >= logging.WARNING
            and record.name.startswith("transformers")
        )

    def inputs(self, batch):
        """Our dict -> theirs."""
        import torch

        names = {
            "input_ids": "input_word_ids",
            "attention_mask": "input_mask",
            "token_type_ids": "input_type_ids",
        }
        return {
            theirs: torch.tensor(batch[ours], dtype=torch.long)
            for theirs, ours in names.items()
        }

    def outputs(self, model, batch):
        """Returns name -> array: every layer, and what the heads give."""
        import torch

        kind = type(model).__name__
        with torch.no_grad():
            base = model.base_model(
                **self.inputs(batch), output_hidden_states=True
            )
            if kind == "AlbertForMultipleChoice":
                batch = _of_choices(batch)
            heads = dict(model(**self.inputs(batch)))
        named = {f"layer {i}": x for i, x in enumerate(base.hidden_states)}
        if base.pooler_output is not None:
            named["pooled"] = base.pooler_output
        renamed = {
            "AlbertForPreTraining": {"prediction_logits": "mlm_logits"},
            "AlbertForMaskedLM": {"logits": "mlm_logits"},
        }.get(kind, {})
        if model is not model.base_model:
            named |= {renamed.get(k, k): v for k, v in heads.items()}
        return {k: v.numpy() for k, v in named.items()}

    def difference(self, ours, theirs, batch):
        """The largest difference of any output, at real tokens.

        Args:
          ours: our model, or its outputs.
          theirs: their model, or its outputs.
          batch: the inputs.
        """
        if not isinstance(ours, dict):
            ours = our_outputs(ours, batch)
        if not isinstance(theirs, dict):
            theirs = self.outputs(theirs, batch)
        mask = batch["input_mask"]
        assert set(ours) == set(theirs)
        differences = []
        for name, array in ours.items():
            assert array.shape == theirs[name].shape
            difference = np.abs(array - theirs[name])
            if array.shape[:2] == mask.shape:
                difference = difference[mask == 1]
            differences.append(difference.max())
        return max(differences)

    def assert_same(self, ours, theirs, batch):
        """Fails unless `difference` is below the tolerance."""
        assert self.difference(ours, theirs, batch) < TOLERANCE

    @staticmethod
    def tensors(folder):
        """Returns what a folder's `model.safetensors` holds."""
        import safetensors.torch

        return safetensors.torch.load_file(folder / "model.safetensors")

    @staticmethod
    def assert_same_tensors(actual, expected):
        """Fails unless names, dtypes and bits are the same."""
        import torch

        assert set(actual) == set(expected)
        for name, tensor in expected.items():
            assert actual[name].dtype == tensor.dtype, name
            assert torch.equal(actual[name], tensor), name


@pytest.fixture(scope="session", name="our_outputs")
def _our_outputs():
    return our_outputs


def our_outputs(model, batch):
    """Returns what `Peer.outputs` does, of a model of ours."""
    encoder = getattr(model, "encoder", model)
    embedded = encoder.embeddings(
        batch["input_word_ids"], batch["input_type_ids"]
    )
    if encoder.embedding_projection is not None:
        embedded = encoder.embedding_projection(embedded)
    states = encoder(batch)
    layers = [embedded, *states["encoder_outputs"]]
    named = {f"layer {i}": layer for i, layer in enumerate(layers)}
    if "pooled_output" in states:
        named["pooled"] = states["pooled_output"]
    if isinstance(model, AlbertPretrainer):
        everywhere = np.indices(batch["input_mask"].shape)[1]
        heads = dict(model({**batch, "masked_lm_positions": everywhere}))
        heads.pop("pooled_output", None)
    elif isinstance(model, AlbertMultipleChoice):
        heads = {"logits": model(_of_choices(batch))}
    elif isinstance(model, AlbertQuestionAnswering):
        heads = model(batch)
    elif isinstance(model, AlbertEncoder):
        heads = {}
    else:
        heads = {"logits": model(batch)}
    return {k: np.asarray(v) for k, v in {**named, **heads}.items()}


def _of_choices(batch):
    """Two choices a question: `[2 n, seq]` -> `[n, 2, seq]`."""
    return {k: v.reshape(-1, 2, v.shape[-1]) for k, v in batch.items()}
