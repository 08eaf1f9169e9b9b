import json

import numpy as np
import pytest

from albert_tf.analysis.attention import analyze_attention
from albert_tf.errors import InputError
from albert_tf.models.encoder import AlbertEncoder

TEXT = "A good story, well told."


def test_maps_are_those_of_the_model(make_encoder):
    encoder = make_encoder()
    report = analyze_attention(encoder, TEXT, "Is it?")
    attentive = AlbertEncoder(encoder.config, output_attentions=True)
    attentive.set_weights(encoder.get_weights())
    inputs = encoder.tokenizer(TEXT, "Is it?")
    expected = [np.asarray(x)[0] for x in attentive(inputs)["attentions"]]
    np.testing.assert_allclose(report.probabilities, expected, atol=1e-6)
    assert report.tokens[0] == "[CLS]"
    assert report.tokens.count("[SEP]") == 2
    assert (report.layers, report.heads, report.cut) == ((1, 2, 3), (1, 2), 0)
    some = analyze_attention(encoder, TEXT, "Is it?", layers=[3, 2], heads=[2])
    np.testing.assert_array_equal(
        some.probabilities, report.probabilities[1:, 1:]
    )


def test_statistics_of_uniform_attention(make_encoder):
    """With equal scores, the attention to all tokens is equal."""
    encoder = make_encoder(num_hidden_layers=1)
    for part in ("query", "key"):
        layer = getattr(encoder.stack.attentions[0], part)
        layer.kernel.assign(np.zeros((16, 16)))
        layer.bias.assign(np.zeros(16))
    report = analyze_attention(encoder, TEXT)
    count = len(report.tokens)
    np.testing.assert_allclose(report.entropy, np.log2(count), rtol=1e-5)
    for share in (report.to_cls, report.to_sep, report.to_itself):
        np.testing.assert_allclose(share, 1 / count, rtol=1e-5)
    # The mean of |i - j| over all pairs.
    expected = (count**2 - 1) / (3 * count)
    np.testing.assert_allclose(report.distance, expected, rtol=1e-5)


def test_mask_tokens_and_truncation(make_encoder):
    encoder = make_encoder()
    assert "[MASK]" in analyze_attention(encoder, "A [MASK] story.").tokens
    whole = analyze_attention(encoder, TEXT)
    report = analyze_attention(encoder, TEXT, max_seq_length=6)
    assert report.tokens == (*whole.tokens[:5], "[SEP]")
    assert report.cut == len(whole.tokens) - 6
    # The model has 40 positions.
    assert len(analyze_attention(encoder, TEXT * 9).tokens) == 40


def test_table_json_and_plot(make_encoder, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install .[plots]")
    report = analyze_attention(
        make_encoder(), "Price: $5 or $x^2 | \u202e \x07"
    )
    assert len(report.table().splitlines()) == 2 + 3 * 2
    found = json.loads(json.dumps(report.to_dict()))
    assert np.shape(found["probabilities"])[:2] == (3, 2)
    assert found["entropy"][0][0] == pytest.approx(
        report.entropy[0, 0], abs=1e-5
    )
    report.plot(tmp_path / "maps.svg")
    assert "head 2" in (tmp_path / "maps.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"text": TEXT, "pair": " "}, "pair is empty"),
        ({"text": TEXT, "heads": [1, 3]}, "heads=1,3 must be numbers from 1"),
        ({"text": TEXT, "heads": []}, "heads= must be numbers"),
        ({"text": TEXT, "max_seq_length": 2}, "must be at least 3"),
    ],
)
def test_errors(make_encoder, arguments, problem):
    with pytest.raises(InputError, match=problem):
        analyze_attention(make_encoder(), **arguments)
