"""KerasHub's ALBERT and ours: presets in both directions, and what differs."""

import contextlib
import gzip
import itertools
import json

import h5py
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

pytestmark = pytest.mark.peer

TOLERANCE = 2e-5
# What KerasHub can express: it has one activation.
SUPPORTED = ("base", "groups", "equal_sizes", "equal_sizes_projected")
POSITIONS = np.array([[1, 5, 3], [2, 4, 1], [1, 3, 2], [4, 1, 0]], "int32")
KERAS_HUB_INPUTS = {
    "input_word_ids": "token_ids",
    "input_mask": "padding_mask",
    "input_type_ids": "segment_ids",
    "masked_lm_positions": "mask_positions",
}


@pytest.fixture(scope="module")
def keras_hub():
    library = pytest.importorskip(
        "keras_hub", reason="KerasHub is not installed: run `make test-peers`"
    )
    if tuple(map(int, library.__version__.split(".")[:2])) < (0, 32):
        pytest.skip(
            f"KerasHub {library.__version__}, the last one for Python 3.10, "
            "fails with today's Keras at tasks of its own"
        )
    return library


@pytest.fixture(scope="module")
def vocabulary(shared):
    return shared("data", "sentencepiece-30k-clean", "30k-clean.model")


@pytest.fixture(params=SUPPORTED)
def config(request, configs):
    return configs[request.param]


@pytest.fixture
def write(tmp_path):
    """Returns `write(model)`: the folder of a preset made from our model."""

    def run(model, **arguments):
        model.save_pretrained(
            tmp_path / "ours", arguments.pop("tokenizer", None)
        )
        convert(
            ConvertConfig(
                input=tmp_path / "ours",
                output=tmp_path / "preset",
                to="keras_hub",
                **arguments,
            )
        )
        return tmp_path / "preset"

    return run


def preset_of(keras_hub, config, seed=1):
    """A backbone of KerasHub's with random weights."""
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        embedding_dim=config.embedding_size,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        num_groups=config.num_hidden_groups,
        num_inner_repetitions=config.inner_group_num,
        max_sequence_length=config.max_position_embeddings,
        dropout=config.hidden_dropout_prob,
    )
    randomize(backbone, seed)
    return backbone


def randomize(model, seed):
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        mean = 1.0 if variable.name == "gamma" else 0.0
        variable.assign(rng.normal(mean, 0.15, variable.shape))


def renamed(batch):
    return {KERAS_HUB_INPUTS[name]: value for name, value in batch.items()}


def ids_of(tokenizer, texts):
    return [np.asarray(row).tolist() for row in tokenizer(texts)]


def layer_outputs(keras_hub, backbone, batch):
    """KerasHub's outputs, and those of its blocks in the order they run in."""
    block = keras_hub.layers.TransformerEncoder
    outputs, call = [], block.call

    def recording_call(*args, **kwargs):
        outputs.append(call(*args, **kwargs))
        return outputs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "call", recording_call)
        return backbone(renamed(batch)), outputs


def assert_same_encoder(keras_hub, ours, backbone, batch):
    expected, layers = layer_outputs(keras_hub, backbone, batch)
    outputs = ours(batch)
    assert len(layers) == len(outputs["encoder_outputs"])
    for mine, theirs in zip(outputs["encoder_outputs"], layers, strict=True):
        assert_close(mine, theirs)
    assert_close(outputs["sequence_output"], expected["sequence_output"])
    assert_close(outputs["pooled_output"], expected["pooled_output"])


def assert_close(actual, expected, atol=TOLERANCE):
    np.testing.assert_allclose(
        np.asarray(actual), np.asarray(expected), rtol=0, atol=atol
    )


def h5_tensors(path):
    tensors = {}

    def visit(name, item):
        no_weight = "seed_generator" in name or name.startswith("optimizer/")
        if isinstance(item, h5py.Dataset) and not no_weight:
            tensors[name] = item[()]

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return tensors


def assert_same_files(ours, theirs):
    """The tensors under KerasHub's names, bit by bit, and their number."""
    counts = [
        json.loads((x / "metadata.json").read_text())["parameter_count"]
        for x in (ours, theirs)
    ]
    assert counts[0] == counts[1]
    names = {path.name for path in theirs.glob("*.h5")}
    assert names == {path.name for path in ours.glob("*.h5")}
    for name in names:
        mine, expected = h5_tensors(ours / name), h5_tensors(theirs / name)
        assert mine.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_array_equal(mine[key], value, err_msg=key)


@contextlib.contextmanager
def original_epsilon(masked_lm):
    """Gives KerasHub's head the epsilon that every other ALBERT has."""
    norm = masked_lm.masked_lm_head._intermediate_layer_norm
    shipped, norm.epsilon = norm.epsilon, 1e-12
    yield
    norm.epsilon = shipped


# Kind of preset -> our class, the arguments of a new model, and those with
# which it is opened.
KINDS = {
    "AlbertBackbone": (AlbertEncoder, {}, {}),
    "AlbertTextClassifier": (
        AlbertClassifier,
        {"num_labels": 3, "dropout": 0.2},
        {},
    ),
    "AlbertMaskedLM": (
        AlbertPretrainer,
        {"sop_head": False},
        {"sop_head": False},
    ),
}


def assert_same_outputs(keras_hub, kind, ours, theirs, batch):
    if kind == "AlbertBackbone":
        assert_same_encoder(keras_hub, ours, theirs, batch)
    elif kind == "AlbertTextClassifier":
        assert_close(ours(batch), theirs(renamed(batch)))
        assert theirs.dropout == ours.head_dropout == 0.2
    else:
        batch = {**batch, "masked_lm_positions": POSITIONS}
        with original_epsilon(theirs):
            logits = theirs(renamed(batch))
        assert_close(ours(batch)["mlm_logits"], logits)


@pytest.mark.parametrize("kind", KINDS)
def test_our_model_there(
    keras_hub,
    kind,
    config,
    write,
    random_model,
    random_batch,
    assert_same_weights,
    tmp_path,
):
    model, arguments, opening = KINDS[kind]
    ours = random_model(model, config, **arguments)
    folder = write(ours)
    options = {} if kind == "AlbertBackbone" else {"preprocessor": None}
    their_class = getattr(keras_hub.models, kind)
    theirs = their_class.from_preset(str(folder), **options)
    assert_same_outputs(keras_hub, kind, ours, theirs, random_batch(config))

    theirs.save_to_preset(tmp_path / "theirs")
    assert_same_files(folder, tmp_path / "theirs")
    back = model.from_pretrained(folder, **opening)
    assert back.config == config
    assert_same_weights(ours, back)


@pytest.mark.parametrize("kind", KINDS)
def test_their_model_here(keras_hub, kind, config, random_batch, tmp_path):
    model, _, opening = KINDS[kind]
    theirs = preset_of(keras_hub, config)
    if kind == "AlbertTextClassifier":
        theirs = keras_hub.models.AlbertTextClassifier(
            theirs, num_classes=3, dropout=0.2
        )
        randomize(theirs, 2)
    elif kind == "AlbertMaskedLM":
        theirs = keras_hub.models.AlbertMaskedLM(theirs)
        randomize(theirs, 2)
    theirs.save_to_preset(tmp_path / "theirs")
    ours = model.from_pretrained(tmp_path / "theirs", **opening)
    assert_same_outputs(keras_hub, kind, ours, theirs, random_batch(config))
    # KerasHub has a projection whatever the sizes.
    assert ours.config == config.replace(
        project_equal_sizes=config.embedding_size == config.hidden_size
    )

    ours.save_pretrained(tmp_path / "ours")
    convert(
        ConvertConfig(
            input=tmp_path / "ours", output=tmp_path / "back", to="keras_hub"
        )
    )
    assert_same_files(tmp_path / "back", tmp_path / "theirs")


def test_their_activation_is_not_ours(
    keras_hub, configs, random_batch, tmp_path
):
    """Theirs can return probabilities, ours returns logits, and says so."""
    theirs = keras_hub.models.AlbertTextClassifier(
        preset_of(keras_hub, configs["base"]),
        num_classes=3,
        activation="softmax",
    )
    theirs.save_to_preset(tmp_path / "theirs")
    ours = AlbertClassifier.from_pretrained(tmp_path / "theirs")
    assert "skipped: the classifier's activation, 'softmax'" in ours.load_report
    batch = random_batch(configs["base"])
    assert_close(tf.nn.softmax(ours(batch)), theirs(renamed(batch)))


@pytest.fixture(scope="module")
def texts(shared):
    """Lower-cased sentences, with digits, commas and quotes among them."""
    lines = []
    for path in sorted(shared("data", "wikipedia-en").glob("*.gz"))[:1]:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [
                line.strip().lower() for line in itertools.islice(file, 400)
            ]
    return [*filter(None, lines), "in 2,000 9,9 [MASK] cafe ``so''", "Ⅷ ﬁne"]


@pytest.fixture
def vocabulary_config(configs):
    return configs["base"].replace(vocab_size=30000)


def test_their_tokenizer_here(
    keras_hub, vocabulary_config, vocabulary, texts, tmp_path
):
    models = keras_hub.models
    preset = models.AlbertTextClassifier(
        preset_of(keras_hub, vocabulary_config),
        num_classes=2,
        preprocessor=models.AlbertTextClassifierPreprocessor(
            models.AlbertTokenizer(str(vocabulary)), sequence_length=16
        ),
    )
    preset.save_to_preset(tmp_path / "theirs")
    ours = AlbertClassifier.from_pretrained(tmp_path / "theirs")
    expected = ids_of(preset.preprocessor.tokenizer, texts)
    assert ours.tokenizer.encode(texts) == expected

    firsts, seconds = texts[:40], texts[40:80]
    batch = ours.tokenizer(firsts, seconds, max_length=16, padding="max_length")
    # Without labels, a pair would be taken as texts and labels.
    data = tf.data.Dataset.from_tensors(((firsts, seconds), [0] * 40))
    packed, _ = data.map(preset.preprocessor).get_single_element()
    for name, mine in renamed(batch).items():
        np.testing.assert_array_equal(packed[name], mine, err_msg=name)


@pytest.mark.parametrize("task", ["classifier", "masked_lm"])
def test_text_goes_into_what_we_write(
    keras_hub, vocabulary_config, vocabulary, texts, write, random_model, task
):
    tokenizer = AlbertTokenizer.from_file(
        vocabulary, do_lower_case=False, strip_accents=False, digit_comma="off"
    )
    models = keras_hub.models
    if task == "classifier":
        ours = random_model(AlbertClassifier, vocabulary_config, num_labels=2)
    else:
        ours = random_model(AlbertPretrainer, vocabulary_config, sop_head=False)
    folder = str(write(ours, tokenizer=tokenizer))

    tokenize = models.AlbertTokenizer.from_preset(folder)
    assert ids_of(tokenize, texts) == tokenizer.encode(texts)
    # Rows as long as the backbone can take, not KerasHub's 512.
    longest = vocabulary_config.max_position_embeddings
    batch = tokenizer(texts[:8], max_length=longest, padding="max_length")
    if task == "classifier":
        theirs = models.AlbertTextClassifier.from_preset(folder)
        assert_close(theirs.predict(texts[:8], verbose=0), ours(batch))
    else:
        theirs = models.AlbertMaskedLM.from_preset(folder)
        inputs, _, _ = theirs.preprocessor(texts[:8])
        assert inputs["token_ids"].shape == (8, longest)
        np.testing.assert_array_equal(
            inputs["padding_mask"], batch["input_mask"]
        )


def test_its_ids_are_those_of_our_settings(
    keras_hub, vocabulary_config, vocabulary, write, random_model, caplog
):
    tokenizer = AlbertTokenizer.from_file(vocabulary)
    ours = random_model(AlbertEncoder, vocabulary_config)
    folder = write(ours, tokenizer=tokenizer)
    (warning,) = [x.getMessage() for x in caplog.records]
    assert "the same ids, except for capital sigmas" in warning
    # Ours comes back as it was.
    back = AlbertEncoder.from_pretrained(folder)
    assert back.tokenizer.settings == tokenizer.settings
    assert back.tokenizer.model_bytes == tokenizer.model_bytes
    assert "lower-case" not in back.load_report
    texts = [
        "The Café: 1,000 of 2,000.",
        "İSTANBUL ﬁlm ½ Ａ\u3000b",
        "한국",
        "",
    ]
    theirs = keras_hub.models.AlbertTokenizer.from_preset(str(folder))
    assert ids_of(theirs, texts) == tokenizer.encode(texts)
    # And so it does when KerasHub has written it, without our settings.
    again = folder.with_name("again")
    keras_hub.models.AlbertBackbone.from_preset(str(folder)).save_to_preset(
        again
    )
    theirs.save_to_preset(again)
    reread = AlbertEncoder.from_pretrained(again)
    assert reread.tokenizer.encode(texts) == tokenizer.encode(texts)
    assert "does not lower-case" not in reread.load_report


@pytest.mark.slow
def test_how_often_its_ids_differ(
    keras_hub, vocabulary_config, vocabulary, write, random_model, shared
):
    """The number in docs/checkpoints.md; shown with `-s`."""
    tokenizer = AlbertTokenizer.from_file(vocabulary)
    folder = write(
        random_model(AlbertEncoder, vocabulary_config), tokenizer=tokenizer
    )
    theirs = keras_hub.models.AlbertTokenizer.from_preset(str(folder))
    plain = keras_hub.models.AlbertTokenizer(str(vocabulary))
    counts = np.zeros(3, int)
    for path in sorted(shared("data").glob("*/*.gz")):
        if path.name.endswith(".json.gz"):
            continue
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = (line.rstrip("\n") for line in file)
            texts = list(itertools.islice(filter(None, lines), 20_000))
        ids = tokenizer.encode(texts)
        found = [
            sum(x != y for x, y in zip(ids, ids_of(other, texts), strict=True))
            for other in (theirs, plain)
        ]
        counts += [len(texts), *found]
        print(path.parent.name, len(texts), *found)
    print("lines, different, different with the plain vocabulary:", *counts)
    assert counts[1] <= 1e-5 * counts[0]


# What KerasHub does differently: the rows of docs/checkpoints.md.


def test_its_masked_lm_head_has_another_epsilon(
    keras_hub, write, configs, random_model, random_batch
):
    config = configs["base"]
    ours = random_model(AlbertPretrainer, config, sop_head=False)
    # The smaller what the norm is given, the more epsilon matters.
    kernel = ours.mlm_head.dense.kernel
    kernel.assign(kernel * 0.1)
    theirs = keras_hub.models.AlbertMaskedLM.from_preset(
        str(write(ours)), preprocessor=None
    )
    assert theirs.masked_lm_head.layer_norm_epsilon == 1e-5
    batch = {**random_batch(config), "masked_lm_positions": POSITIONS}
    logits = np.asarray(ours(batch)["mlm_logits"])
    as_shipped = np.asarray(theirs(renamed(batch)))
    assert np.abs(logits - as_shipped).max() > 100 * TOLERANCE
    with original_epsilon(theirs):
        assert_close(theirs(renamed(batch)), logits)


def test_its_gelu_is_the_tanh_approximation(keras_hub, configs):
    backbone = preset_of(keras_hub, configs["base"])
    layer = backbone.transformer_layers[0][0]
    activation = layer._feedforward_intermediate_dense.activation
    assert float(activation(1.0)) == pytest.approx(0.841192, abs=1e-6)


def test_it_drops_out_the_feed_forward_output(keras_hub, configs):
    config = configs["base"].replace(
        hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5
    )
    layer = preset_of(keras_hub, config).transformer_layers[0][0]
    # Attention adds nothing and the feed-forward network ones, so that equal
    # positions stay equal unless its output is dropped out.
    for dense, bias in (
        (layer._self_attention_layer.output_dense, 0.0),
        (layer._feedforward_output_dense, 1.0),
    ):
        dense.kernel.assign(np.zeros(dense.kernel.shape))
        dense.bias.assign(np.full(dense.bias.shape, bias))
    equal = np.ones((1, 4, config.hidden_size), "float32")
    assert np.ptp(layer(equal, training=False), axis=1).max() == 0
    assert np.ptp(layer(equal, training=True), axis=1).max() > 0.1


@pytest.mark.parametrize(
    ("text", "their_pieces", "our_pieces"),
    [
        ("The fox.", "▁ <unk> he ▁fox .", "▁the ▁fox ."),
        ("in 2000, he", "▁in ▁2000, ▁he", "▁in ▁2000 , ▁he"),
    ],
)
def test_it_keeps_case_and_commas(
    keras_hub, vocabulary, text, their_pieces, our_pieces
):
    theirs = keras_hub.models.AlbertTokenizer(str(vocabulary))
    pieces = [theirs.id_to_token(i) for i in ids_of(theirs, [text])[0]]
    assert pieces == their_pieces.split()
    ours = AlbertTokenizer.from_file(vocabulary)
    assert ours.tokenize(text) == our_pieces.split()


def test_it_refuses_groups_of_unequal_depth(keras_hub, configs):
    unequal = configs["base"].replace(num_hidden_groups=3)
    object.__setattr__(unequal, "num_hidden_layers", 5)  # Ours refuses, too.
    with pytest.raises(ValueError, match="divisible by `num_groups`"):
        preset_of(keras_hub, unequal)
