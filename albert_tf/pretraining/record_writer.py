"""Serialized examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError

# Google's names, so that the original and Model Garden read our records. The
# label is 1 where the second segment does not follow the first.
INT_FEATURES = (
    "input_ids",
    "input_mask",
    "masked_lm_ids",
    "masked_lm_positions",
    "next_sentence_labels",
    "segment_ids",
    "token_boundary",
)
FLOAT_FEATURES = ("masked_lm_weights",)

# Name of a model's input or label -> Google's name of the feature.
FEATURE_OF_INPUT = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    "sentence_order_labels": "next_sentence_labels",
}


def serialize_examples(features: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serializes features to one `Example` each.

    Args:
      features: the eight features; `[examples, seq]` `input_ids`, `input_mask`,
        `segment_ids`, `token_boundary`; `[examples, predictions]`
        `masked_lm_positions`, `masked_lm_ids`, `masked_lm_weights`;
        `[examples, 1]` `next_sentence_labels`. Integers are stored as int64,
        weights as float.

    Returns:
      The records. Equal features give equal bytes.
    """
    columns = [
        (name, "int64_list", features[name].tolist()) for name in INT_FEATURES
    ] + [
        (name, "float_list", features[name].tolist()) for name in FLOAT_FEATURES
    ]
    records = []
    for index in range(len(features["input_ids"])):
        example = _Example()
        feature = example.features.feature
        for name, kind, values in columns:
            getattr(feature[name], kind).value.extend(values[index])
        records.append(example.SerializeToString(deterministic=True))
    return records


def serialize_example(features: Mapping[str, Sequence[int]]) -> bytes:
    """Serializes lists of integers to an `Example`, as int64."""
    example = _Example()
    for name, values in features.items():
        example.features.feature[name].int64_list.value.extend(values)
    return example.SerializeToString(deterministic=True)


def parse_example(record: bytes) -> dict[str, np.ndarray]:
    """Parses one record to its features.

    Returns:
      Name -> int64 or float32 array, `[values]`.

    Raises:
      ValueError: the bytes are not a serialized `Example`.
    """
    try:
        example = _Example.FromString(record)
    except DecodeError as error:
        raise ValueError(f"not a serialized Example: {error}") from None
    parsed: dict[str, np.ndarray] = {}
    for name, feature in example.features.feature.items():
        if feature.HasField("int64_list"):
            parsed[name] = np.array(feature.int64_list.value, np.int64)
        else:
            parsed[name] = np.array(feature.float_list.value, np.float32)
    return parsed


def _example_class() -> Any:
    """Returns the class of tensorflow/core/example/example.proto's Example."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="example.proto", package="tensorflow", syntax="proto3"
    )

    def add(scope, name, *fields):
        message = scope.add(name=name)
        for number, (field_name, label, kind) in enumerate(fields, 1):
            is_message = isinstance(kind, str)
            message.field.add(
                name=field_name,
                number=number,
                label=label,
                type=field.TYPE_MESSAGE if is_message else kind,
                type_name=f".tensorflow.{kind}" if is_message else None,
            )
        return message

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    types = file.message_type
    add(types, "BytesList", ("value", many, field.TYPE_BYTES))
    add(types, "FloatList", ("value", many, field.TYPE_FLOAT))
    add(types, "Int64List", ("value", many, field.TYPE_INT64))
    kind = add(
        types,
        "Feature",
        ("bytes_list", one, "BytesList"),
        ("float_list", one, "FloatList"),
        ("int64_list", one, "Int64List"),
    )
    kind.oneof_decl.add(name="kind")
    for member in kind.field:
        member.oneof_index = 0
    features = add(
        types, "Features", ("feature", many, "Features.FeatureEntry")
    )
    entry = add(
        features.nested_type,
        "FeatureEntry",
        ("key", one, field.TYPE_STRING),
        ("value", one, "Feature"),
    )
    entry.options.map_entry = True
    add(types, "Example", ("features", one, "Features"))

    # A pool of its own: TensorFlow registers the same names in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("tensorflow.Example")
    )


_Example = _example_class()
