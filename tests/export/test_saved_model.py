import pytest


@pytest.mark.parametrize(
    "kind",
    [
        "encoder",
        "preprocessor",
        pytest.param("text_encoder", marks=pytest.mark.long),
        "task",
    ],
)
def test_saving_traces_no_function_again(exports, kind):
    assert exports[kind]
    before, after = exports.traces[kind]
    assert before[".__call__"]
    # Functions with an input signature need not be traced before.
    assert after == {path: count or 1 for path, count in before.items()}
