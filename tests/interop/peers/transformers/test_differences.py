"""What transformers' ALBERT does otherwise than Google's and ours."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

pytestmark = pytest.mark.peer


@pytest.mark.parametrize(
    ("name", "hidden_act", "other"),
    [("gelu_erf", "gelu", "gelu_tanh"), ("base", "gelu_new", "gelu_erf")],
)
def test_gelu_is_the_exact_one(
    configs, name, hidden_act, other, hf, random_batch, tmp_path
):
    """Google's configs say "gelu" and mean the tanh approximation."""
    theirs = hf.model("AlbertModel", configs[name])
    assert theirs.config.hidden_act == hidden_act
    theirs.save_pretrained(tmp_path)
    batch = random_batch(configs[name])
    hf.assert_same(AlbertEncoder.from_pretrained(tmp_path), theirs, batch)
    wrong = AlbertEncoder.from_pretrained(
        tmp_path, config_overrides={"hidden_act": other}
    )
    # 9e-4: too little to be seen in an accuracy.
    assert 1e-4 < hf.difference(wrong, theirs, batch) < 1e-2


def test_the_feed_forward_network_has_no_dropout(
    configs, hf, random_model, random_batch
):
    """Theirs makes the layer and never calls it."""
    config = configs["base"].replace(hidden_dropout_prob=0.5)
    batch = random_batch(config)
    theirs = hf.model("AlbertModel", config)
    expected = hf.outputs(theirs, batch)
    theirs.train()
    theirs.embeddings.dropout.p = 0.0
    block = theirs.encoder.albert_layer_groups[0].albert_layers[0]
    block.attention.output_dropout.p = 0.0
    assert block.dropout.p == 0.5  # the only one that is left
    assert hf.difference(expected, theirs, batch) < 1e-6

    ours = random_model(AlbertEncoder, config)
    states = np.asarray(ours(batch)["sequence_output"])
    ours.embeddings.dropout.rate = 0.0
    ours.stack.attentions[0].output_dropout.rate = 0.0
    feed_forward = ours.stack.feed_forwards[0]
    assert feed_forward.output_dropout.rate == 0.5
    trained = ours(batch, training=True)["sequence_output"]
    assert np.abs(trained - states).max() > 0.1
    feed_forward.output_dropout.rate = 0.0
    trained = ours(batch, training=True)["sequence_output"]
    np.testing.assert_array_equal(trained, states)


def test_transformers_never_trains_the_padding_word(
    configs, hf, random_model, random_batch, tmp_path
):
    """Its row gets no gradient, not even where the loss sees padding."""
    import torch

    starts, ends = np.array([1, 0, 3, 2]), np.array([2, 0, 4, 2])
    config = configs["base"]
    ours = random_model(AlbertQuestionAnswering, config, head="v1")
    ours.save_pretrained(tmp_path)
    theirs = hf.open("AlbertForQuestionAnswering", tmp_path)
    batch = random_batch(config)
    assert not batch["input_mask"].all()
    theirs(
        **hf.inputs(batch),
        start_positions=torch.tensor(starts),
        end_positions=torch.tensor(ends),
    ).loss.backward()
    name = "albert.embeddings.word_embeddings.weight"
    expected = theirs.get_parameter(name).grad.numpy()
    assert not expected[0].any()

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    (table,) = (
        v for v in ours.trainable_variables if "word_embeddings" in v.path
    )
    with tf.GradientTape() as tape:
        outputs = ours(batch)
        value = 0.5 * (
            loss(starts, outputs["start_logits"])
            + loss(ends, outputs["end_logits"])
        )
    found = tf.convert_to_tensor(tape.gradient(value, table.value)).numpy()
    largest = np.abs(expected).max()
    assert np.abs(found[0]).max() > 0.01 * largest
    np.testing.assert_allclose(found[1:], expected[1:], atol=1e-4 * largest)


def test_layers_need_not_divide_by_groups(configs, hf, tmp_path):
    """Theirs makes groups of several sizes; ours refuses."""
    config = configs["base"].replace(num_hidden_layers=6, num_hidden_groups=3)
    theirs = hf.model("AlbertModel", config)
    theirs.config.num_hidden_layers = 5
    theirs.save_pretrained(tmp_path)
    hf.open("AlbertModel", tmp_path)
    with pytest.raises(InputError, match="num_hidden_layers=5 must be a mult"):
        AlbertEncoder.from_pretrained(tmp_path)


def test_labels_size_the_sentence_order_head(configs, hf, tmp_path):
    """With `num_labels=3` there are three orders of two sentences."""
    theirs = hf.model("AlbertForPreTraining", configs["base"], num_labels=3)
    assert theirs.sop_classifier.classifier.weight.shape == (3, 24)
    theirs.save_pretrained(tmp_path)
    with pytest.raises(
        InputError,
        match=r"misshapen tensor sop_classifier.classifier.weight: \[3, 24\]",
    ):
        AlbertPretrainer.from_pretrained(tmp_path)


def test_segment_ids_are_forgotten_unless_told(
    configs, hf, random_model, shared, tmp_path
):
    """transformers 5 and a folder that does not name the model's inputs."""
    model = shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    folder = tmp_path / "theirs"
    hf.config(configs["base"]).save_pretrained(folder)
    (folder / "spiece.model").write_bytes(model.read_bytes())
    load = hf.transformers.AutoTokenizer.from_pretrained
    assert "token_type_ids" not in load(folder)("a question", "an answer")

    config = configs["base"].replace(vocab_size=30_000)
    ours = random_model(AlbertEncoder, config)
    ours.save_pretrained(tmp_path / "ours", AlbertTokenizer.from_file(model))
    tokenizer = load(tmp_path / "ours")
    encoded = tokenizer("a question", "an answer")
    first = 1 + encoded["input_ids"].index(tokenizer.sep_token_id)
    second = len(encoded["input_ids"]) - first
    assert encoded["token_type_ids"] == [0] * first + [1] * second
