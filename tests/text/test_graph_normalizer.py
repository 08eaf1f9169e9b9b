import pytest
import tensorflow as tf

from albert_tf.text.graph_normalizer import GraphNormalizer
from albert_tf.text.normalizer import Normalizer

OPTIONS = [
    *((True, True), (True, False), (False, True), (False, False)),
    # As Hugging Face: quotes replaced, characters lower-cased first.
    *((True, True, True, True), (True, False, True, True)),
]


def in_graph(normalizer, texts):
    return [
        text.decode()
        for text in GraphNormalizer(normalizer)(texts).numpy().tolist()
    ]


@pytest.fixture(scope="module")
def characters(characters):
    """Those that a string tensor can hold."""
    # TensorFlow 2.18 writes U+FDD0 and the other noncharacters as U+FFFD.
    probe = tf.strings.unicode_encode([0xFDD0], "UTF-8").numpy().decode()
    if probe == "\ufdd0":
        return characters
    return [
        c
        for c in characters
        if not ("\ufdd0" <= c < "\ufdf0" or ord(c) & 0xFFFE == 0xFFFE)
    ]


@pytest.mark.parametrize("options", OPTIONS)
def test_every_code_point_in_every_context_of_sigma(options, characters):
    normalizer = Normalizer(*options)
    for template in ("{}Σ", "AΣ{}A", "Σ{} A"):
        spelled = [template.format(c) for c in characters]
        texts = [
            "".join(spelled[i : i + 64]) for i in range(0, len(spelled), 64)
        ]
        assert in_graph(normalizer, texts) == list(map(normalizer, texts))


@pytest.mark.parametrize("options", OPTIONS)
def test_every_code_point_at_the_ends_of_a_text(options, characters):
    # All but ideographs and unassigned planes, which are many and plain.
    normalizer = Normalizer(*options)
    texts = [
        template.format(c)
        for c in characters
        if c < "\u3100" or "\ua000" <= c < "\uac80" or "\uf900" <= c <= "\uffff"
        for template in ("{0}", "{0}Σ", "AΣ{0}", " {0} x {0} ")
    ]
    assert in_graph(normalizer, texts) == list(map(normalizer, texts))


@pytest.mark.parametrize(
    "options", [*OPTIONS, (False, True, True), (True, True, True, False)]
)
def test_odd_texts(options, odd_texts, quoted_texts, each):
    normalizer = Normalizer(*options)
    texts = [*odd_texts[:9], *odd_texts[9::each], *quoted_texts[::each]]
    assert in_graph(normalizer, texts) == list(map(normalizer, texts))


@pytest.mark.parametrize(
    "raw",
    [
        b"a\xffb",
        b"\xe4\xbd",
        b"\xed\xa0\x80x",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
        b"\xf0\x9f\x98x",
        b"\xe0\x80\x80a",
        b"\xf8\x88\x80\x80\x80",
        b"A\xc3 \xc3\x89",
    ],
)
def test_invalid_utf8_is_replaced_as_in_python(raw):
    normalizer = Normalizer()
    expected = normalizer(raw.decode("utf-8", errors="replace"))
    assert in_graph(normalizer, [raw]) == [expected]


def test_keeps_shapes():
    normalizer = Normalizer()
    assert GraphNormalizer(normalizer)(tf.constant(" A")).numpy() == b"a"
    grid = GraphNormalizer(normalizer)([[" A", "B "], ["", "É"]])
    assert grid.numpy().tolist() == [[b"a", b"b"], [b"", b"e"]]
    for options in ((), (True, True, True, True)):
        empty = GraphNormalizer(Normalizer(*options))(tf.zeros([0], tf.string))
        assert empty.shape == [0]

    traced = tf.function(GraphNormalizer(normalizer)).get_concrete_function(
        tf.TensorSpec([None, 3], tf.string)
    )
    assert traced.output_shapes.as_list() == [None, 3]
