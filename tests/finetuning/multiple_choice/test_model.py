import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice


@pytest.fixture
def choices(batch):
    """Three choices for each of four questions: `[4, 3, 12]`."""
    return {
        name: np.stack([np.roll(values, n, axis=0) for n in range(3)], axis=1)
        for name, values in batch.items()
    }


def test_own_weights_and_output(config, choices):
    model = AlbertMultipleChoice(config)
    assert model(choices).shape == (4, 3)
    extra = {v.path for v in model.trainable_variables} - {
        v.path for v in model.encoder.trainable_variables
    }
    assert extra == {"choice_head/kernel", "choice_head/bias"}


def test_each_choice_is_scored_by_itself(config, batch, choices):
    model = AlbertMultipleChoice(config)
    logits = np.asarray(model(choices))
    # Column n holds the questions of column 0, n rows further down.
    for n in range(3):
        np.testing.assert_allclose(
            logits[:, n], np.roll(logits[:, 0], n), atol=1e-5
        )
    one = {name: values[:, :1] for name, values in choices.items()}
    np.testing.assert_allclose(model(one)[:, 0], logits[:, 0], atol=1e-5)


def test_fits(config, choices):
    keras.utils.set_random_seed(0)
    model = AlbertMultipleChoice(config.replace(initializer_range=0.1))
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    # Always the one that was rolled from the same row: 0, 1 and 2 rows away.
    answers = np.array([0, 1, 2, 2])
    history = model.fit(choices, answers, epochs=15, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]


def test_bad_input(config, batch):
    with pytest.raises(InputError, match="AlbertMultipleChoice: dropout=2"):
        AlbertMultipleChoice(config, dropout=2)
    model = AlbertMultipleChoice(config)
    with pytest.raises(ValueError, match=r"2 dimensions.*\[batch, choices, s"):
        model(batch)
    del batch["input_mask"]
    with pytest.raises(ValueError, match="missing: input_mask"):
        model(batch)
