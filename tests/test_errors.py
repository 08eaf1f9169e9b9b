import pytest

from albert_tf.errors import InputError, counted, shown


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 steps"), (1, "1 step"), (2000, "2,000 steps")]
)
def test_counts(number, text):
    assert counted(number, "step") == text


def test_messages_are_one_printable_line():
    error = InputError("a\nb\x1b[31m\u202ec")
    assert str(error) == r"a b\x1b[31m\u202ec"


def test_values_are_shown_in_80_characters():
    assert shown("a" * 78) == repr("a" * 78)
    assert shown("a" * 79) == f"'{'a' * 76}..."
    assert shown(None) == "None"
