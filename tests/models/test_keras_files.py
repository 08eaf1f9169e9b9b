"""`.keras` files: tokenizers, LoRA, and other processes."""

import importlib
import inspect
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.interop.checkpoint import Vocabulary
from albert_tf.models.model_graph import float32_copy

LOAD = """
import sys, albert_tf
assert "keras" not in sys.modules and "tensorflow" not in sys.modules
import keras
for path in sys.argv[1:]:
    model = keras.saving.load_model(path)
    print(type(model).__name__, model.tokenizer.fingerprint)
"""


@pytest.fixture
def lora_model(config):
    """A classifier whose LoRA kernels are not zero."""
    model = AlbertClassifier(config, 3)
    for layer in model._flatten_layers():
        if hasattr(layer, "enable_lora"):
            layer.enable_lora(2, lora_alpha=3)
            layer.lora_kernel_b.assign(
                np.random.default_rng(0).normal(
                    0, 0.1, layer.lora_kernel_b.shape
                )
            )
    return model


def test_lora_is_merged_when_a_model_is_saved(
    lora_model, config, batch, round_trip, tmp_path
):
    expected = lora_model(batch)
    plain = AlbertClassifier(config, 3)
    assert len(lora_model.weights) > len(plain.weights)
    lora_model.save_pretrained(tmp_path / "model")
    for loaded in (
        AlbertClassifier.from_pretrained(tmp_path / "model"),
        float32_copy(lora_model, packed=False),
        round_trip(lora_model),
    ):
        assert len(loaded.weights) == len(plain.weights)
        np.testing.assert_allclose(loaded(batch), expected, atol=1e-5)


def frozen_paths(model):
    return [x.path for x in model.non_trainable_weights]


def test_frozen_parts_stay_frozen(config, batch, round_trip):
    model = AlbertClassifier(config.replace(num_hidden_layers=1), 3)
    model.encoder.trainable = False
    model.encoder.pooler.trainable = True
    frozen = frozen_paths(model)
    assert frozen
    assert "encoder/pooler/kernel" not in frozen
    model.compile("adam", "mse")
    model.fit(batch, np.zeros([4, 3]), verbose=0)
    again = round_trip(model)
    assert frozen_paths(again) == frozen
    for x, y in zip(
        again.optimizer.variables, model.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(x, y)
    assert frozen_paths(keras.models.clone_model(model)) == frozen
    copy = float32_copy(model, packed=False)
    assert not copy.non_trainable_weights


@pytest.mark.parametrize("in_constructor", [True, False])
def test_a_frozen_encoder_of_a_functional_model(
    config, batch, round_trip, in_constructor
):
    config = config.replace(num_hidden_layers=1)
    encoder = albert_tf.AlbertEncoder(config, trainable=not in_constructor)
    encoder.trainable = False if not in_constructor else encoder.trainable
    ids = keras.Input([None], dtype="int32")
    outputs = keras.layers.Dense(2)(encoder(ids)["pooled_output"])
    model = keras.Model(ids, outputs)
    for each in (model, round_trip(model), keras.models.clone_model(model)):
        assert len(each.trainable_weights) == 2


def test_an_encoder_of_another_precision(config, batch, round_trip):
    encoder = albert_tf.AlbertEncoder(config, dtype="mixed_bfloat16")
    model = albert_tf.AlbertPretrainer(config, encoder=encoder)
    inputs = {**batch, "masked_lm_positions": np.array([[1, 5]] * 4, "int32")}
    for again in (round_trip(model), keras.models.clone_model(model)):
        assert again.encoder.dtype_policy == encoder.dtype_policy
        assert again.mlm_head.dtype_policy == model.dtype_policy
    logits = round_trip(model)(inputs)["mlm_logits"]
    np.testing.assert_array_equal(logits, model(inputs)["mlm_logits"])
    copy = float32_copy(model, packed=False)
    assert copy.encoder.compute_dtype == "float32"


def test_a_subclass_that_makes_its_encoder(config):
    class Pretrainer(albert_tf.AlbertPretrainer):
        def __init__(self, config, dtype=None, **kwargs):
            encoder = albert_tf.AlbertEncoder(config, dtype="mixed_bfloat16")
            super().__init__(config, encoder=encoder, dtype=dtype, **kwargs)

    model = Pretrainer(config)
    again = Pretrainer.from_config(model.get_config())
    assert again.encoder.dtype_policy == model.encoder.dtype_policy


def test_shared_embeddings(config, round_trip):
    """A config cannot say whose they are."""
    first = albert_tf.AlbertEncoder(config)
    with pytest.raises(InputError, match="have vocab_size=.*, but config"):
        albert_tf.AlbertEncoder(
            config.replace(vocab_size=7), embeddings=first.embeddings
        )
    second = albert_tf.AlbertEncoder(
        config, embeddings=first.embeddings, name="second"
    )
    with pytest.raises(InputError, match="'second' has the embeddings of ano"):
        round_trip(second)
    second.trainable = False
    assert not first.embeddings.trainable_weights
    assert first.pooler.trainable_weights


@keras.saving.register_keras_serializable()
class WithLogits(albert_tf.AlbertEncoder):
    """An encoder with a layer of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = keras.layers.Dense(2)
        self.extra.build((None, 16))

    def call(self, inputs, training=False):
        outputs = super().call(inputs, training=training)
        return self.extra(outputs["pooled_output"])


def test_an_encoder_with_another_layer(config, batch, round_trip):
    model = WithLogits(config.replace(num_hidden_layers=1))
    model.compile("adam", "mse", run_eagerly=True)  # Tracing takes seconds.
    before = np.asarray(model.extra.kernel).copy()
    model.fit(batch, np.ones([4, 2]), verbose=0)
    assert not np.array_equal(model.extra.kernel, before)
    again = round_trip(model)
    np.testing.assert_array_equal(again(batch), model(batch))


def test_an_additional_variable_cannot_be_saved(config, tmp_path):
    class Extended(AlbertClassifier):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.extra = keras.layers.Dense(2, name="extra")
            self.extra.build((None, 16))

    with pytest.raises(InputError, match="variable extra/kernel is not part"):
        Extended(config, 3).save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.long
def test_a_new_process_loads_models_with_their_tokenizers(
    config, tokenizer, tmp_path
):
    config = config.replace(vocab_size=tokenizer.vocab_size)
    paths = []
    for model in (
        albert_tf.AlbertClassifier(config, 3),
        albert_tf.AlbertPretrainer(config),
    ):
        model.vocabulary = Vocabulary(tokenizer)
        paths.append(tmp_path / f"{type(model).__name__}.keras")
        model.save(paths[-1])
    result = subprocess.run(
        [sys.executable, "-c", LOAD, *paths],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.splitlines() == [
        f"{path.stem} {tokenizer.fingerprint}" for path in paths
    ]


def test_every_registered_class_is_found_by_name():
    for name in albert_tf.__all__:
        getattr(albert_tf, name)
    registered = {
        name.removeprefix("albert_tf>")
        for name, found in keras.saving.get_custom_objects().items()
        # Losses are registered by the modules of their models.
        if name.startswith("albert_tf>") and not inspect.isfunction(found)
    }
    for module in albert_tf._OTHER_KERAS_CLASSES.values():
        importlib.import_module(f"albert_tf.{module}")
    assert registered == {
        *albert_tf._KERAS_CLASSES,
        *albert_tf._OTHER_KERAS_CLASSES,
        "AlbertSpanLabeler",
    }


def test_old_name(config, tmp_path):
    old, new = "AlbertSpanLabeler", "AlbertQuestionAnswering"
    with pytest.deprecated_call(match=f"is now albert_tf.{new}"):
        assert getattr(albert_tf, old) is getattr(albert_tf, new)
    assert old not in dir(albert_tf)
    path = tmp_path / "model.keras"
    albert_tf.AlbertQuestionAnswering(config, "v1").save(path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    for name, content in files.items():
        if name == "config.json":
            content = content.replace(new.encode(), old.encode())
            assert b"AlbertSpanLabeler" in content
            files[name] = content.replace(
                b"albert_tf.finetuning.question_answering.model", b"albert_tf"
            )
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    model = keras.saving.load_model(path)
    assert type(model) is albert_tf.AlbertQuestionAnswering
