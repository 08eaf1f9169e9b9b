import json

import numpy as np
import pytest

from albert_tf.analysis.similarity import SETTLED, _measures, analyze_similarity
from albert_tf.errors import InputError

TEXTS = ["A good story.", "The tale that was told so well, again and again."]


def by_hand(encoder, texts):
    """The means of figure 1, from the encoder's own outputs."""
    inputs = encoder.tokenizer(texts)
    rows, layout = encoder.embed(inputs)
    layers = encoder(inputs)["encoder_outputs"]
    inner = encoder.config.inner_group_num
    states = [layout.restore(rows), *layers[inner - 1 :: inner]]
    real = inputs["input_mask"].astype(bool)
    states = [np.asarray(x, "float64")[real] for x in states]
    distances, cosines = [], []
    for x, y in zip(states, states[1:], strict=False):
        distances.append(np.linalg.norm(y - x, axis=-1).mean())
        lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
        cosines.append(((x * y).sum(-1) / lengths).mean())
    return distances, cosines, real.sum()


@pytest.mark.parametrize(
    "fields",
    [{}, {"sharing": "none"}, {"num_hidden_groups": 3, "inner_group_num": 2}],
    ids=str,
)
def test_figure_1(make_encoder, fields):
    encoder = make_encoder(**fields)
    (found,) = analyze_similarity(encoder, TEXTS, iterations=0).models
    distances, cosines, tokens = by_hand(encoder, TEXTS)
    np.testing.assert_allclose(found.distance, distances, rtol=1e-5)
    np.testing.assert_allclose(found.cosine, cosines, rtol=1e-5)
    assert (found.tokens, found.num_layers) == (tokens, 3)
    assert not found.iterated
    assert len(found.norm) == len(found.to_last) == 4
    assert found.to_last[-1] == 0


@pytest.mark.parametrize("inner", [1, 2])
def test_iterations_of_a_shared_layer_are_a_deeper_model(make_encoder, inner):
    encoder, deeper = (
        make_encoder(num_hidden_layers=layers, inner_group_num=inner)
        for layers in (3, 7)
    )
    deeper.set_weights(encoder.get_weights())
    shallow, deep = analyze_similarity(
        [encoder, deeper], TEXTS, iterations=7
    ).models
    assert (shallow.name, deep.name) == ("encoder (1)", "encoder (2)")
    assert shallow.iterated
    assert not deep.iterated
    for name in ("norm", "distance", "angle", "to_last", "turn"):
        np.testing.assert_allclose(
            getattr(shallow, name), getattr(deep, name), rtol=1e-4, atol=1e-5
        )


def orbit(step, start=(1.0, 0.0), count=40):
    """States of one token under repeated application of a function."""
    states = [np.array(start)]
    for _ in range(count):
        states.append(np.array(step(*states[-1])))
    return np.array(states, "float32")[:, None]


@pytest.mark.parametrize(
    ("step", "settled", "oscillating", "turn"),
    [
        (lambda x, y: (1 + (x - 1) / 2, 1 + (y - 1) / 2), True, False, 1),
        # Around a fixed point and into it: -1/2 is a contraction, too.
        (lambda x, y: (3 - x / 2, 1 - y / 2), True, False, -1),
        (lambda x, y: (-x, -y), False, True, -1),
        (lambda x, y: (-y, x), False, True, 0),
        # A circle of 12 steps.
        (
            lambda x, y: (x * 0.866 - y / 2, x / 2 + y * 0.866),
            False,
            True,
            0.87,
        ),
        (lambda x, y: (x + 1, y), False, False, 1),
    ],
    ids=["converges", "spirals", "period 2", "period 4", "circle", "moves"],
)
def test_fixed_points_and_oscillations(step, settled, oscillating, turn):
    # Fewer steps for convergence, as rounding errors have no direction.
    count = 12 if settled else 40
    found = _measures(orbit(step, count=count))
    assert found["settled"][0] == settled
    assert found["oscillating"][0] == oscillating
    assert found["turn"][-1, 0] == pytest.approx(turn, abs=0.01)
    assert (found["distance"][-1] < SETTLED * found["norm"][-1]) == settled


def test_a_model_with_random_weights(make_encoder):
    def run():
        return analyze_similarity(
            make_encoder(),
            TEXTS,
            iterations=4,
            config_overrides={"sharing": "none"},
        )

    first, second = run(), run()
    trained, fresh = first.models
    assert (trained.sharing, fresh.sharing) == ("all", "none")
    assert fresh.name == "random, sharing=none"
    assert first == second  # Equal in every run.
    assert json.loads(json.dumps(first.to_dict()))["models"][1]["tokens"] > 0


def test_batches_and_empty_texts_do_not_change_the_means(
    make_encoder, monkeypatch
):
    encoder = make_encoder()
    one = analyze_similarity(encoder, TEXTS * 3, iterations=5)
    monkeypatch.setattr("albert_tf.analysis.similarity._MAX_NUMBERS", 1)
    other = analyze_similarity(
        encoder, ["", *TEXTS, "  \n", *TEXTS, *TEXTS], iterations=5
    )
    assert one.models[0].tokens == other.models[0].tokens
    for name in ("distance", "angle", "to_last", "settled"):
        np.testing.assert_allclose(
            getattr(one.models[0], name),
            getattr(other.models[0], name),
            rtol=1e-4,
            atol=1e-4,
        )


def test_table_and_plot(make_encoder, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install .[plots]")
    report = analyze_similarity(
        {"a|b": make_encoder(), "$x$": make_encoder(num_hidden_layers=2)},
        TEXTS,
        iterations=6,
    )
    layers, iterations = report.table().split("\n\n")
    assert len(layers.splitlines()) == 2 + 3
    assert "a\\|b: L2" in layers
    rows = [row.split("|") for row in iterations.splitlines()[2:]]
    # From the right, as a name contains a bar.
    assert [row[-7].strip() for row in rows] == ["3", "6", "2", "6"]
    report.plot(tmp_path / "figure.svg")
    assert "a|b" in (tmp_path / "figure.svg").read_text()


def test_errors(make_encoder):
    encoder = make_encoder()
    with pytest.raises(InputError, match="no text to analyze"):
        analyze_similarity(encoder, ["", " "])
    with pytest.raises(InputError, match="no model to analyze"):
        analyze_similarity([], TEXTS)
    with pytest.raises(InputError, match="max_seq_length=2 must be at least 3"):
        analyze_similarity(encoder, TEXTS, max_seq_length=2)
    with pytest.raises(InputError, match="iterations=-1"):
        analyze_similarity(encoder, TEXTS, iterations=-1)
    encoder.stack.attentions[0].query.bias.assign(np.full(16, np.nan))
    with pytest.raises(InputError, match="states of encoder are not finite"):
        analyze_similarity(encoder, TEXTS)
    encoder.vocabulary = type(encoder.vocabulary)()
    with pytest.raises(InputError, match="encoder has no tokenizer"):
        analyze_similarity(encoder, TEXTS)
