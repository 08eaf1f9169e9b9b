"""Checks of a preprocessor: TF-Hub's text contract, and what is beyond."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from . import strings, tokenizer
from .encoder import INPUTS
from .exported import Exported
from .findings import expect, expect_same

_SPECIAL = (
    "padding_id",
    "start_of_sequence_id",
    "end_of_segment_id",
    "mask_id",
    "vocab_size",
)
_SHORT = 7


def outputs(exported: Exported) -> str:
    """Strings become rows of the right names, types and lengths."""
    length = exported.manifest["seq_length"]
    _check_rows(exported.root(strings.texts()), length)
    _check_rows(exported.root([strings.texts(), strings.texts()]), length)
    return f"{', '.join(INPUTS)}: int32 [batch, {length}]"


def seq_length(exported: Exported) -> str:
    """The root call takes another length, as a number or a tensor."""
    for length in (_SHORT, tf.constant(_SHORT)):
        _check_rows(exported.root(strings.texts(), seq_length=length), _SHORT)
    return f"{_SHORT} instead of {exported.manifest['seq_length']}"


def rows(exported: Exported) -> str:
    """Rows are [CLS] text [SEP] padding; pairs have two segments."""
    special = _special(exported)
    begin, end = special["start_of_sequence_id"], special["end_of_segment_id"]
    for texts, segments in (
        (strings.texts(), 1),
        ([strings.texts(), strings.texts()], 2),
    ):
        packed = {k: x.numpy() for k, x in exported.root(texts).items()}
        ids, mask = packed["input_word_ids"], packed["input_mask"]
        lengths = mask.sum(axis=1)
        expected_mask = np.arange(ids.shape[1]) < lengths[:, None]
        expect(np.array_equal(mask, expected_mask), "input_mask has holes")
        expect((ids[:, 0] == begin).all(), "rows do not begin with [CLS]")
        last = ids[np.arange(len(ids)), lengths - 1]
        expect((last == end).all(), "rows do not end with [SEP]")
        expect((ids[mask == 0] == special["padding_id"]).all(), "padding ids")
        ends = (ids == end).sum(axis=1)
        expect((ends == segments).all(), f"{segments} segments: [SEP] {ends}")
        types = packed["input_type_ids"]
        expect(types.max() == segments - 1, f"{segments} segments: types")
        expect((types[mask == 0] == 0).all(), "types of padding")
    return ""


def tokenize(exported: Exported) -> str:
    """`.tokenize` gives ragged ids, `get_special_tokens_dict` numbers."""
    root = exported.root
    tokens = root.tokenize(strings.texts())
    expect(isinstance(tokens, tf.RaggedTensor), "not ragged")
    expect_same(tokens.dtype.name, "int32", "dtype")
    expect_same(tokens.ragged_rank, 1, "ragged rank")
    special = _special(exported)
    expect_same(sorted(special), sorted(_SPECIAL), "special tokens")
    ids = tokens.flat_values.numpy()
    expect(ids.max() < special["vocab_size"], "ids beyond vocab_size")
    return f"{special['vocab_size']:,} pieces"


def offsets(exported: Exported) -> str:
    """`.tokenize_with_offsets` says where in the text tokens are."""
    found = exported.root.tokenize_with_offsets(strings.texts())
    expect_same(len(found), 3, "outputs")
    ids, starts, limits = found
    wanted = exported.root.tokenize(strings.texts())
    expect_same(ids.to_list(), wanted.to_list(), "ids")
    for name, part in (("starts", starts), ("limits", limits)):
        expect_same(part.dtype.name, "int64", f"dtype of {name}")
    sizes = tf.gather(tf.strings.length(strings.texts()), starts.value_rowids())
    inside = (starts.values >= 0) & (starts.values <= limits.values)
    inside &= limits.values <= tf.cast(sizes, tf.int64)
    expect(bool(tf.reduce_all(inside)), "offsets are outside of the text")
    return ""


def pack(exported: Exported) -> str:
    """`.bert_pack_inputs` of what `.tokenize` gives equals the root call."""
    tokens = exported.root.tokenize(strings.texts())
    for segments in (1, 2):
        texts = (
            [strings.texts()] * segments if segments > 1 else strings.texts()
        )
        packed = exported.root.bert_pack_inputs(
            [tokens] * segments, seq_length=_SHORT
        )
        _check_rows(packed, _SHORT)
        wanted = exported.root(texts, seq_length=_SHORT)
        _check_equal(packed, wanted, f"{segments} segments")
    return "1 and 2 segments"


def signature(exported: Exported) -> str:
    """`serving_default` has names, and gives what the object gives."""
    serve = exported.signature()
    _, named = serve.structured_input_signature
    expect_same(list(named), ["text"], "inputs")
    _check_equal(
        serve(text=strings.texts()),
        exported.root(strings.texts()),
        "serving_default",
    )
    return "text"


def in_dataset(exported: Exported) -> str:
    """`Dataset.map` takes it, and knows the length of rows."""
    data = tf.data.Dataset.from_tensor_slices(strings.texts()).batch(
        len(strings.texts())
    )
    data = data.map(exported.root)
    length = exported.manifest["seq_length"]
    for name, spec in data.element_spec.items():
        expect_same(spec.shape.as_list(), [None, length], f"shape of {name}")
    _check_equal(
        next(iter(data)), exported.root(strings.texts()), "Dataset.map"
    )
    return ""


def random_ids(exported: Exported) -> str:
    """Random characters give the ids of the source's tokenizer."""
    return _compared(exported, ["random"])


def text_ids(exported: Exported) -> str:
    """Real text gives the ids of the source's tokenizer."""
    return _compared(exported, ["text"])


def _compared(exported: Exported, sets: list[str]) -> str:
    count = 0
    for name in sets:
        wanted = exported.expected(name)
        texts = tf.constant([bytes(text) for text in wanted["texts"]])
        ids = exported.root.tokenize(texts)
        for part in ("values", "row_splits"):
            expect(
                np.array_equal(getattr(ids, part), wanted[part]),
                f"ids of {name} differ",
            )
        count += int(ids.nested_row_splits[-1][-1])
    return f"{count:,} equal ids"


def _check_rows(found: dict, length: int) -> None:
    expect_same(sorted(found), sorted(INPUTS), "outputs")
    for name, tensor in found.items():
        expect_same(tensor.dtype.name, "int32", f"dtype of {name}")
        shape = [len(strings.texts()), length]
        expect_same(tensor.shape.as_list(), shape, f"shape of {name}")


def _check_equal(found: dict, wanted: dict, what: str) -> None:
    expect_same(sorted(found), sorted(wanted), f"outputs of {what}")
    for name in wanted:
        equal = np.array_equal(found[name], wanted[name])
        expect(equal, f"{what}: {name} differs")


def _special(exported: Exported) -> dict[str, int]:
    found = exported.root.tokenize.get_special_tokens_dict()
    return {name: int(value) for name, value in found.items()}


CHECKS = {
    "outputs": outputs,
    "seq_length": seq_length,
    "rows": rows,
    "tokenize": tokenize,
    "tokenize_with_offsets": offsets,
    "bert_pack_inputs": pack,
    "signature": signature,
    "assets": tokenizer.assets,
    "Dataset.map": in_dataset,
    "ids: random text": random_ids,
    "ids: real text": text_ids,
}
