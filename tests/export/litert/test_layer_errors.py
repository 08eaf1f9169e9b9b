import pytest

from albert_tf.export.litert_conversion import layer_errors


@pytest.fixture(scope="module")
def errors(encoder, make_rows):
    rows = make_rows(4, seed=2)
    return {
        name: layer_errors(
            encoder,
            name,
            rows,
            calibration=make_rows(8, seed=1) if name == "int8" else None,
        )
        for name in ("none", "float16", "int8")
    }


def test_there_is_one_for_each_block(errors):
    for each in errors.values():
        assert [error.block for error in each] == [1, 2]


def test_float32_has_none(errors):
    for error in errors["none"]:
        assert error.largest == error.relative == 0
        assert error.cosine == pytest.approx(1, abs=1e-6)


def test_fewer_bits_have_larger_ones(errors):
    for few, many in zip(errors["int8"], errors["float16"], strict=True):
        assert few.largest > 10 * many.largest > 0
        assert few.relative > 10 * many.relative > 0
        assert 0.9 < few.cosine < many.cosine < 1
