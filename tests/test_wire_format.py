import pytest
from google.protobuf import descriptor_pb2

from albert_tf.wire_format import fields_of, varint


def test_fields_are_those_of_a_message():
    message = descriptor_pb2.FieldDescriptorProto(
        name="a" * 300, number=1 << 20, type_name="b"
    )
    content = memoryview(message.SerializeToString())
    found = [(number, bytes(value)) for number, value in fields_of(content)]
    # The number is no field of a length, and left out.
    assert found == [(1, b"a" * 300), (6, b"b")]


def test_fixed_sizes_are_skipped():
    content = b"\x09" + bytes(8) + b"\x15" + bytes(4) + b"\x1a\x01c"
    assert list(fields_of(memoryview(content))) == [(3, b"c")]


@pytest.mark.parametrize("number", [0, 127, 128, 300, 2**32, 2**64 - 1])
def test_numbers_and_what_follows(number):
    content, rest = b"", number
    while rest > 127:
        content, rest = content + bytes([rest & 127 | 128]), rest >> 7
    content += bytes([rest])
    assert varint(memoryview(b"x" + content + b"y"), 1) == (
        number,
        1 + len(content),
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x0a\x03ab", "1 bytes are missing"),
        (b"\x0a", "it is truncated"),
        (b"\x0b", "no field begins at byte 1"),
        (b"\xff" * 10 + b"\x01", "no number ends at byte 10"),
    ],
)
def test_damage_is_named(content, message):
    with pytest.raises(ValueError, match=message):
        list(fields_of(memoryview(content)))
