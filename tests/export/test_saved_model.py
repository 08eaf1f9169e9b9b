import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from albert_tf.export.export import export
from albert_tf.export.saved_model import Endpoint


def traces(endpoint, path=""):
    """Returns path -> how often the function there was traced."""
    counts = {}
    for name, value in vars(endpoint).items():
        if isinstance(value, polymorphic_function.Function):
            count = value.experimental_get_tracing_count()
            counts[f"{path}.{name}"] = count
        elif isinstance(value, Endpoint):
            counts |= traces(value, f"{path}.{name}")
    return counts


@pytest.mark.parametrize(
    "kind",
    [
        "encoder",
        "preprocessor",
        pytest.param("text_encoder", marks=pytest.mark.long),
        "task",
    ],
)
def test_nothing_is_traced_again_to_be_saved(
    kind, pretrained, make_finetuned, tmp_path, monkeypatch
):
    source = pretrained
    if kind == "task":
        source = make_finetuned("sst2", max_seq_length=16)
    save, counts = tf.saved_model.save, []

    def counted_save(root, *arguments, **options):
        counts.append(traces(root))
        save(root, *arguments, **options)
        counts.append(traces(root))

    monkeypatch.setattr(tf.saved_model, "save", counted_save)
    export(source, tmp_path / "export", kind)
    before, after = counts
    assert before[".__call__"]
    # Those with an input signature need not be traced before.
    assert after == {path: count or 1 for path, count in before.items()}
