import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives import replaced_token_detection
from albert_tf.objectives.registry import make_objective
from albert_tf.objectives.replaced_token_detection import (
    generator_config,
    sample_tokens,
)
from albert_tf.training.loss import TOKENS

# Some are equal to the original, by chance as in training.
SAMPLES = np.array(
    [[9, 11, 12]] * 3 + [[20, 21, 22]] * 2 + [[30, 31, 32]], "int32"
)


def tensors(batch):
    return {name: tf.constant(value) for name, value in batch.items()}


@pytest.fixture
def objective():
    return make_objective(
        "rtd", {"generator_hidden_size": 8}, pair_task="sop", mask_id=4
    )


@pytest.fixture
def samples(batch, monkeypatch):
    """Fixed samples, with the original tokens among them."""
    values = SAMPLES.copy()
    values[:3, 0] = batch["masked_lm_ids"][:3, 0]
    monkeypatch.setattr(
        replaced_token_detection,
        "sample_tokens",
        lambda logits: tf.constant(values),
    )
    return values


def test_samples_follow_the_distribution():
    logits = np.log([[0.6, 0.3, 0.1, 1e-30]]).astype("float32")
    draws = 40_000
    with dropout_seeds(tf.constant([1, 2])):
        drawn = sample_tokens(tf.repeat(tf.constant(logits), draws, axis=0))
    shares = np.bincount(drawn, minlength=4) / draws
    # Four standard deviations of a share of one half.
    np.testing.assert_allclose(shares, [0.6, 0.3, 0.1, 0.0], atol=0.01)


def test_samples_are_a_function_of_the_seed():
    logits = tf.zeros([50, 100])

    def draw(seed):
        with dropout_seeds(tf.constant(seed)):
            first = sample_tokens(logits).numpy()
            return first, sample_tokens(logits).numpy()

    np.testing.assert_array_equal(draw([1, 2]), draw([1, 2]))
    assert (draw([1, 2])[0] != draw([1, 3])[0]).mean() > 0.9
    first, second = draw([1, 2])
    assert (first != second).mean() > 0.9


def test_the_generator_sees_mask_tokens_only(objective, batch, config):
    """Neither 80/10/10 nor the labels leak into its input."""
    model = objective.create_model(config)
    seen = {}
    generate = model.generate

    def spy(inputs, positions, training=False):
        seen.update(inputs)
        return generate(inputs, positions, training=training)

    model.generate = spy
    data = tensors(batch)
    objective(model, data, objective.normalizers(data), None)
    ids = seen["input_word_ids"].numpy()
    rows = np.arange(6)[:, None]
    used = batch["masked_lm_weights"] > 0
    assert (ids[rows, batch["masked_lm_positions"]][used] == 4).all()
    assert (ids == 4).sum() == used.sum()


def test_tokens_count_as_replaced_unless_the_sample_is_the_original(
    objective, batch, config, samples
):
    model = objective.create_model(config)
    data = tensors(batch)
    _, metrics = objective(model, data, objective.normalizers(data), None)
    used = batch["masked_lm_weights"] > 0
    replaced = (samples != batch["masked_lm_ids"])[used].sum()
    assert 0 < replaced < used.sum()
    tokens = batch["input_mask"].sum()
    np.testing.assert_array_equal(metrics["rtd_replaced"], [replaced, tokens])
    assert metrics["rtd_chance"][0] == tokens - replaced
    assert metrics["rtd_recall"][1] == replaced
    found, flagged = metrics["rtd_precision"].numpy()
    assert metrics["rtd_recall"][0] == found
    wrong = flagged - found + replaced - found
    assert metrics["rtd_accuracy"][0] == tokens - wrong


def test_the_embeddings_are_shared_and_the_generator_is_narrow(
    objective, config
):
    model = objective.create_model(config)
    assert model.generator.embeddings is model.encoder.embeddings
    sizes = model.generator.config
    assert (sizes.hidden_size, sizes.num_attention_heads) == (8, 1)
    assert sizes.num_hidden_layers == config.num_hidden_layers
    paths = [variable.path for variable in model.weights]
    assert len(paths) == len(set(paths))
    assert sum("word_embeddings" in path for path in paths) == 1
    quarter = make_objective("rtd", mask_id=4).create_model(config)
    assert quarter.generator.config.hidden_size == 6


def test_heads_of_a_generator_are_as_wide_as_those_of_the_model(config):
    sizes = config.replace(hidden_size=256, num_attention_heads=4)
    assert generator_config(sizes, 64, 3).num_attention_heads == 1
    assert generator_config(sizes, 128, 3).num_attention_heads == 2
    assert generator_config(sizes, 100, 3).num_attention_heads == 1
    assert generator_config(sizes, 64, 3).num_hidden_layers == 3


def test_the_encoder_is_an_ordinary_albert(objective, config, tmp_path, batch):
    model = objective.create_model(config)
    model.encoder.save_pretrained(tmp_path / "encoder")
    back = AlbertEncoder.from_pretrained(tmp_path / "encoder")
    inputs = {
        name: batch[name]
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    np.testing.assert_array_equal(
        back(inputs)["pooled_output"], model(inputs)["pooled_output"]
    )


def test_saved_as_keras_file(objective, config, tmp_path, batch):
    model = objective.create_model(config)
    model.save(tmp_path / "model.keras")
    back = keras.models.load_model(tmp_path / "model.keras")
    for ours, theirs in zip(model.weights, back.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.peer
@pytest.mark.parametrize("weight", [50.0, 1.0])
def test_loss_and_gradients_are_those_of_the_paper(
    weight, batch, config, samples, tmp_path
):
    """PyTorch's ALBERT, twice, with the loss of arXiv:2003.10555, eq. 2 to 4.

    In float64 there, so the rounding that is compared is ours.
    """
    torch = pytest.importorskip("torch")
    objective = make_objective(
        "rtd",
        {"generator_hidden_size": 8, "discriminator_weight": weight},
        pair_task="sop",
        mask_id=4,
    )
    model = objective.create_model(config)
    data = tensors(batch)
    with tf.GradientTape() as tape:
        loss, metrics = objective(
            model, data, objective.normalizers(data), None
        )
    variables = {v.path: v for v in model.trainable_variables}
    gradients = dict(
        zip(
            variables,
            tape.gradient(loss, [v.value for v in variables.values()]),
            strict=True,
        )
    )
    theirs = paper(torch, model, batch, samples, weight, tmp_path)
    expected, slopes, parts = theirs
    np.testing.assert_allclose(float(loss), expected, rtol=2e-6)
    for name, value in parts.items():
        total, count = metrics[name].numpy()
        np.testing.assert_allclose(total / count, value, rtol=2e-6)
    assert TOKENS in metrics
    assert gradients.keys() == slopes.keys()
    for path, slope in slopes.items():
        largest = np.abs(slope).max()
        if path.endswith("key/bias"):  # A softmax does not see it.
            assert largest < 1e-12
            continue
        assert largest > 1e-6, path
        np.testing.assert_allclose(
            np.asarray(gradients[path]),
            slope,
            atol=2e-5 * largest,
            rtol=0,
            err_msg=path,
        )


def paper(torch, model, batch, samples, weight, folder):
    """Returns loss, gradients by our paths, and the parts of the loss."""
    import transformers

    config = model.config
    small = model.generator.config
    # Two ordinary checkpoints, which transformers opens.
    encoder = AlbertPretrainer(config)
    generator = AlbertPretrainer(small, sop_head=False, pooler=False)
    renamed = {"generator_head": "mlm_head", "generator": "encoder"}
    for target, heads in ((encoder, ()), (generator, renamed)):
        sources = {
            "/".join([dict(renamed).get(first, first), *rest]): v
            for v in model.weights
            for first, *rest in [v.path.split("/")]
            if (first in heads)
            or first in ("encoder", "sop_head")
            and (not heads or "embeddings/" in v.path)
        }
        for variable in target.weights:
            if variable.path in sources:
                variable.assign(sources[variable.path])
    encoder.save_pretrained(folder / "encoder")
    generator.save_pretrained(folder / "generator")
    electra = transformers.AlbertForPreTraining.from_pretrained(
        folder / "encoder"
    ).double()
    small = transformers.AlbertForMaskedLM.from_pretrained(
        folder / "generator"
    ).double()
    # One table for both, as in the paper.
    small.albert.embeddings = electra.albert.embeddings
    small.predictions.decoder.weight = (
        electra.albert.embeddings.word_embeddings.weight
    )
    head = {
        v.path: torch.tensor(
            np.asarray(v), dtype=torch.float64
        ).requires_grad_()
        for v in model.rtd_head.weights
    }

    def tensor(name, dtype=torch.long):
        return torch.tensor(batch[name], dtype=dtype)

    rows = torch.arange(6)[:, None]
    positions = tensor("masked_lm_positions")
    used = tensor("masked_lm_weights", torch.float64)
    labels = tensor("masked_lm_ids")
    original = tensor("input_word_ids").clone()
    for row, position in zip(
        *np.nonzero(batch["masked_lm_weights"]), strict=True
    ):
        original[row, positions[row, position]] = labels[row, position]
    masked, corrupted = original.clone(), original.clone()
    for row, pick in zip(*np.nonzero(batch["masked_lm_weights"]), strict=True):
        masked[row, positions[row, pick]] = 4
        corrupted[row, positions[row, pick]] = int(samples[row, pick])
    shared = {
        "attention_mask": tensor("input_mask"),
        "token_type_ids": tensor("input_type_ids"),
    }
    logits = small(input_ids=masked, **shared).logits[rows, positions]
    nll = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), reduction="none"
    ).reshape(used.shape)
    generator_loss = (used * nll).sum() / used.sum()
    states = electra.albert(input_ids=corrupted, **shared)
    hidden = torch.nn.functional.gelu(
        states.last_hidden_state @ head["rtd_head/dense/kernel"]
        + head["rtd_head/dense/bias"],
        approximate="tanh",
    )
    scores = (
        hidden @ head["rtd_head/output/kernel"] + head["rtd_head/output/bias"]
    )[..., 0]
    mask = tensor("input_mask", torch.float64)
    bce = torch.nn.functional.binary_cross_entropy_with_logits(
        scores, (corrupted != original).double(), reduction="none"
    )
    rtd_loss = (mask * bce).sum() / mask.sum()
    sop_loss = torch.nn.functional.cross_entropy(
        electra.sop_classifier(states.pooler_output),
        tensor("sentence_order_labels"),
    )
    loss = generator_loss + weight * rtd_loss + sop_loss
    loss.backward()
    slopes = {path: x.grad.numpy() for path, x in head.items()}
    slopes |= their_gradients(electra, encoder)
    slopes |= {
        "/".join(
            [
                {"mlm_head": "generator_head", "encoder": "generator"}[first],
                *rest,
            ]
        ): slope
        for path, slope in their_gradients(small, generator).items()
        for first, *rest in [path.split("/")]
        if "embeddings/" not in path
    }
    trained = {v.path for v in model.trainable_variables}
    parts = {
        "generator_loss": generator_loss.item(),
        "rtd_loss": rtd_loss.item(),
        "sop_loss": sop_loss.item(),
    }
    return (
        loss.item(),
        {path: x for path, x in slopes.items() if path in trained},
        parts,
    )


def their_gradients(theirs, ours):
    """Returns the gradients of a model of transformers, by our paths."""
    from albert_tf.interop.names import component_of, tensors_of

    components = {component_of(v.path) for v in ours.weights}
    found = dict(theirs.named_parameters())
    gradients = {}
    for tensor in tensors_of(ours.config, components):
        name = tensor.names["huggingface"]
        weight = found.get(name.name)
        if weight is not None and weight.grad is not None:
            gradients[tensor.path] = name.transform.to_ours(
                weight.grad.numpy(), tensor.shape
            )
    return gradients
