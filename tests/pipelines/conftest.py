import pytest

import albert_tf


@pytest.fixture(scope="session")
def fill(checkpoint):
    return albert_tf.FillMask(checkpoint, batch_size=2)
