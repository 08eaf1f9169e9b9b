import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from albert_tf.export.encoder import export_encoder
from albert_tf.export.preprocessor import export_preprocessor
from albert_tf.export.saved_model import Endpoint
from albert_tf.export.text_encoder import export_text_encoder


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


@pytest.mark.parametrize("kind", ["encoder", "preprocessor", "text_encoder"])
def test_nothing_is_traced_again_to_be_saved(
    kind, pretrainer, tokenizer, tmp_path, monkeypatch
):
    save, counts = tf.saved_model.save, []

    def counted_save(root, *arguments, **options):
        counts.append(traces(root))
        save(root, *arguments, **options)
        counts.append(traces(root))

    monkeypatch.setattr(tf.saved_model, "save", counted_save)
    folder = tmp_path / "export"
    if kind == "preprocessor":
        export_preprocessor(tokenizer, folder)
    else:
        export = {
            "encoder": export_encoder,
            "text_encoder": export_text_encoder,
        }
        export[kind](pretrainer, folder, tokenizer=tokenizer)
    before, after = counts
    assert before[".__call__"]
    # Those with an input signature need not be traced before.
    assert after == {path: count or 1 for path, count in before.items()}
