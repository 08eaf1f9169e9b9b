import pytest

from albert_tf.finetuning.embedding.examples import EmbeddingExample


@pytest.fixture(scope="session")
def examples_of():
    """Returns `examples_of(*texts, labels=None)`: an example of each tuple."""

    def make(*texts, labels=None):
        labels = labels or [None] * len(texts)
        return [
            EmbeddingExample(
                id=str(i), texts=tuple(x), label=label, location=f"a:{i}"
            )
            for i, (x, label) in enumerate(zip(texts, labels, strict=True))
        ]

    return make
