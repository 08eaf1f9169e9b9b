import pytest

from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.errors import InputError


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"doc_stride": 0}, "doc_stride=0 must be at least 1"),
        ({"max_query_length": -1}, "max_query_length=-1 must be at least 1"),
        (
            {"max_seq_length": 67},
            "max_seq_length=67 leaves no room .* least 68",
        ),
    ],
)
def test_bad_lengths(lengths, message):
    with pytest.raises(InputError, match=message):
        SpanSettings(**lengths)
    SpanSettings(max_seq_length=68)
