"""Missing, unexpected and misshapen tensors are errors."""

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.names import FORMATS, tensors_of

HEADS = {
    "google": ("mlm_head", "sop_head"),
    "huggingface": ("mlm_head", "sop_head"),
    "keras_hub": ("mlm_head",),
    "model_garden": ("mlm_head",),
}


@pytest.fixture(params=FORMATS)
def source(request, config, tensors):
    """A complete checkpoint of each system, and its config."""
    system = request.param
    # Model Garden has one group of one block.
    groups = 1 if system == "model_garden" else 2
    config = config.replace(num_hidden_groups=groups, inner_group_num=1)
    return tensors(system, config, *HEADS[system]), config


@pytest.fixture
def google(config, tensors):
    return tensors("google", config, "mlm_head", "sop_head")


@pytest.fixture
def huggingface(config, tensors):
    return tensors("huggingface", config, "mlm_head", "sop_head")


def match_error(source, config, match, **arguments):
    with pytest.raises(InputError, match=match) as error:
        source.match(config, **arguments)
    message = str(error.value)
    assert message.startswith("the file")
    assert "\n" not in message
    return message


def test_each_missing_tensor_is_named(source):
    source, config = source
    for name in list(source):
        array = source.pop(name)
        match_error(
            source, config, f"missing tensor {name}|expected one tensor"
        )
        source[name] = array
    source.match(config)


def test_each_misshapen_tensor_is_named(source):
    source, config = source
    for name in list(source):
        array = source[name]
        for shape in ((*array.shape, 1), (7, *array.shape[1:])):
            source[name] = np.zeros(shape, np.float32)
            match_error(source, config, "misshapen|unexpected|missing")
        source[name] = array


def test_unknown_tensors_are_named(source):
    source, config = source
    name = "adapter.up" if source.system == "huggingface" else "adapter/up"
    source[name] = np.zeros(3, np.float32)
    match_error(source, config, f"unexpected tensor {name}")


def test_a_long_list_of_problems_is_truncated(google, config):
    for i in range(20):
        google[f"extra_{i}"] = np.zeros(1)
    message = match_error(google, config, "unexpected tensor extra_0; unexp")
    assert message.endswith("; and 14 more")
    assert "vocab_size=30, embedding_size=4, hidden_size=8" in message


@pytest.mark.parametrize(
    ("system", "changes", "match"),
    [
        ("google", {"num_hidden_groups": 1}, "unexpected .*group_1/"),
        ("google", {"num_hidden_groups": 2}, "unexpected .*group_2/"),
        ("google", {"num_hidden_groups": 6}, "missing .*group_3/"),
        ("google", {"inner_group_num": 1}, "unexpected .*/inner_group_1/"),
        ("google", {"inner_group_num": 3}, "missing .*/inner_group_2/"),
        (
            "huggingface",
            {"num_hidden_groups": 2},
            r"unexpected .*albert_layer_groups\.2\.",
        ),
        (
            "keras_hub",
            {"num_hidden_groups": 2},
            "unexpected .*layers/transformer_encoder_4/",
        ),
    ],
)
def test_other_numbers_of_blocks_are_errors(
    config, tensors, system, changes, match
):
    match_error(tensors(system, config), config.replace(**changes), match)


@pytest.mark.parametrize(
    ("system", "stored", "labels", "heads"),
    [
        ("huggingface", "token_head", 3, ["classifier_head", "token_head"]),
        ("google", "choice_head", 1, ["classifier_head", "choice_head"]),
    ],
)
def test_ambiguous_heads_must_be_chosen(
    config, tensors, system, stored, labels, heads
):
    source = tensors(system, config, stored, num_labels=labels)
    match_error(
        source,
        config,
        f"may belong to a {heads[0]} or a .*{heads[1]}; choose one with "
        "head=..., or --head=... on the command line",
    )
    for head in heads:
        found = source.match(config, head=head)
        assert {head} == found.components - {"encoder", "projection", "pooler"}
        assert found.head.num_labels == labels
    # Multiple choice has a single output.
    if labels == 3:
        message = r"misshapen tensor .*: \[3, 8\], expected \[1, 8\]"
        match_error(source, config, message, head="choice_head")


def test_a_missing_head_is_not_a_component(google, config):
    for name in [n for n in google if n.startswith("cls/seq_relationship")]:
        del google[name]
    assert "sop_head" not in google.match(config).components
    for name in [n for n in google if n.startswith("cls/predictions")]:
        del google[name]
    assert "mlm_head" not in google.match(config).components
    for name in [n for n in google if "pooler" in n]:
        del google[name]
    found = google.match(config)
    assert found.components == {"encoder", "projection"}


@pytest.mark.parametrize("shape", [(), (8,), (2, 8, 1), (2, 9)])
def test_output_weights_of_invalid_shape(config, tensors, shape):
    source = tensors("google", config, "classifier_head", num_labels=2)
    source["output_weights"] = np.zeros(shape, np.float32)
    match_error(
        source, config, "output_weights|output_bias", head="classifier_head"
    )
    match_error(source, config, "output_weights|output_bias")


def test_equal_tied_copies_are_skipped(huggingface, config):
    words = huggingface["albert.embeddings.word_embeddings.weight"]
    bias = huggingface["predictions.bias"]
    huggingface["predictions.decoder.weight"] = words.copy()
    huggingface["predictions.decoder.bias"] = bias.copy()
    found = huggingface.match(config)
    assert found.skipped == {
        "predictions.decoder.weight": "tied copy",
        "predictions.decoder.bias": "tied copy",
    }


def test_a_tied_copy_without_original_is_loaded(huggingface, config):
    bias = huggingface.pop("predictions.bias")
    huggingface["predictions.decoder.bias"] = bias
    found = huggingface.match(config)
    assert not found.skipped
    np.testing.assert_array_equal(found.arrays["mlm_head/output_bias"], bias)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_unequal_tied_copies_are_an_error(huggingface, config, name):
    original = {
        "weight": "albert.embeddings.word_embeddings.weight",
        "bias": "predictions.bias",
    }[name]
    copy = huggingface[original].copy()
    copy.flat[-1] += 1e-6
    huggingface[f"predictions.decoder.{name}"] = copy
    message = f"predictions.decoder.{name} differs from {original}, to which"
    for other in (copy, copy[:-1]):
        huggingface[f"predictions.decoder.{name}"] = other
        found = huggingface.match(config)
        # The error is raised only if the MLM head is read.
        assert found.arrays["encoder/pooler/bias"].any()
        for path in found.arrays:
            if path.startswith("mlm_head/"):
                with pytest.raises(InputError, match=message):
                    found.arrays[path]


def test_a_second_bias_of_zeros_is_skipped(huggingface, config):
    bias = huggingface["predictions.bias"]
    huggingface["predictions.decoder.bias"] = np.zeros_like(bias)
    found = huggingface.match(config)
    assert found.skipped == {
        "predictions.decoder.bias": "zeros; another bias is used"
    }
    np.testing.assert_array_equal(found.arrays["mlm_head/output_bias"], bias)


GOOGLE_LEFT = {
    "bert/pooler/dense/kernel/adam_m": "optimizer state",
    "bert/pooler/dense/kernel/adam_v": "optimizer state",
    "bert/pooler/dense/kernel/lamb_m": "optimizer state",
    "bert/embeddings/word_embeddings/lamb_v": "optimizer state",
    "bert/pooler/dense/kernel/Adam": "optimizer state",
    "bert/pooler/dense/kernel/Adam_1": "optimizer state",
    "beta1_power": "optimizer state",
    "beta2_power": "optimizer state",
    "global_step": "step counter",
    "loss_scale": "loss scaling",
}


@pytest.mark.parametrize("name", GOOGLE_LEFT)
def test_training_state_is_skipped(google, config, name):
    google[name] = np.zeros((), np.int64)
    assert google.match(config).skipped == {name: GOOGLE_LEFT[name]}


@pytest.mark.parametrize(
    "name", ["albert.embeddings.position_ids", "embeddings.position_ids"]
)
def test_position_ids_of_old_transformers_are_skipped(
    huggingface, config, name
):
    if not name.startswith("albert."):
        huggingface = huggingface.renamed(lambda n: n.removeprefix("albert."))
    huggingface[name] = np.arange(16)[None]
    assert huggingface.match(config).skipped == {name: "constant"}


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_other_floats_become_float32(google, config, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    name = "cls/predictions/output_bias"
    google[name] = google[name].astype(dtype)
    array = google.match(config).arrays["mlm_head/output_bias"]
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, google[name].astype(np.float32))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_integer_weights_are_an_error(google, config, dtype):
    google["cls/predictions/output_bias"] = np.ones(30, dtype)
    arrays = google.match(config).arrays
    with pytest.raises(
        InputError,
        match=f"the file: cls/predictions/output_bias has dtype {dtype}, not f",
    ):
        arrays["mlm_head/output_bias"]


@pytest.fixture
def equal_sizes(config):
    return config.replace(embedding_size=8)


@pytest.fixture(params=["huggingface", "keras_hub"])
def projected(request, equal_sizes, tensors):
    """A checkpoint of a system that always projects, and the tensors' names."""
    config = equal_sizes.replace(project_equal_sizes=True)
    projection = tensors_of(config, {"projection"})
    names = [tensor.names[request.param].name for tensor in projection]
    return tensors(request.param, config), names


def test_an_identity_projection_is_skipped(projected, equal_sizes):
    source, (kernel, bias) = projected
    source[kernel], source[bias] = np.eye(8), np.zeros(8)
    found = source.match(equal_sizes)
    assert "projection" not in found.components
    assert not found.config.project_equal_sizes
    assert set(found.skipped) == {kernel, bias}


@pytest.mark.parametrize("changed", [0, 1])
def test_other_projections_are_loaded(projected, equal_sizes, changed):
    source, names = projected
    source[names[0]], source[names[1]] = np.eye(8, dtype="f4"), np.zeros(8)
    source[names[changed]].flat[3] = 1e-30
    found = source.match(equal_sizes)
    assert "projection" in found.components
    assert found.config.project_equal_sizes
    assert not found.skipped


def test_a_projection_without_its_bias_is_an_error(projected, equal_sizes):
    source, (kernel, bias) = projected
    del source[bias]
    match_error(source, equal_sizes, f"unexpected tensor {kernel}")


def test_values_that_are_not_finite(huggingface, config, caplog):
    name = "albert.embeddings.word_embeddings.weight"
    huggingface[name] = np.full(huggingface[name].shape, np.nan, np.float32)
    arrays = huggingface.match(config).arrays
    path = next(x for x in arrays if "word_embeddings" in x)
    assert np.isnan(arrays[path]).all()
    assert f"{name} has values that are NaN or infinite" in caplog.text
    huggingface[name] = np.full(huggingface[name].shape, 1e300)
    with pytest.raises(InputError, match="too large for float32"):
        huggingface.match(config).arrays[path]
