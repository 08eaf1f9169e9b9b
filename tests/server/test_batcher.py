import threading

import pytest

from albert_tf.server.batcher import Batcher, Overloaded


class Gate:
    """Computes squares, the first batch only when it is opened."""

    def __init__(self):
        self.entered, self.opened = threading.Event(), threading.Event()
        self.batches = []

    def __call__(self, items):
        self.entered.set()
        assert self.opened.wait(30)
        self.batches.append(items)
        if "bad" in items:
            raise ValueError("a bad item")
        return [x * x for x in items]


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def batcher(gate):
    """A batcher of 4 items, of whose batches the first one waits."""
    batcher = Batcher(gate, max_batch_size=4, max_waiting=6)
    first = batcher.submit([1])
    assert gate.entered.wait(30)
    yield batcher
    gate.opened.set()
    batcher.close()
    assert first.result() == [1]


def test_waiting_requests_share_batches(batcher, gate):
    futures = [batcher.submit(x) for x in ([2], [3, 4], [5, 6])]
    assert batcher.num_waiting == 5
    gate.opened.set()
    assert [x.result(30) for x in futures] == [[4], [9, 16], [25, 36]]
    # A request is not divided.
    assert gate.batches == [[1], [2, 3, 4], [5, 6]]
    assert batcher.num_waiting == 0


def test_bad_request_fails_alone(batcher, gate):
    good, bad, other = (batcher.submit([x]) for x in (2, "bad", 3))
    gate.opened.set()
    assert good.result(30) == [4]
    assert other.result(30) == [9]
    with pytest.raises(ValueError, match="bad item"):
        bad.result(30)


def test_limit_of_waiting_items(batcher, gate):
    waiting = batcher.submit([2] * 5)
    message = "5 waiting and 2 new texts exceed the limit of 6; retry later"
    with pytest.raises(Overloaded, match=message):
        batcher.submit([3, 4])
    last = batcher.submit([3])
    gate.opened.set()
    assert waiting.result(30) == [4] * 5
    assert last.result(30) == [9]
    # Larger than the limit, but nothing waits.
    assert batcher.submit([1] * 7).result(30) == [1] * 7


def test_canceled_request_is_not_computed(batcher, gate):
    canceled, other = batcher.submit([2]), batcher.submit([3])
    assert canceled.cancel()
    assert batcher.num_waiting == 1
    gate.opened.set()
    assert other.result(30) == [9]
    assert gate.batches == [[1], [3]]


def test_close_waits_no_longer_than_it_may(batcher, gate):
    batcher.close(0.01)
    with pytest.raises(Overloaded, match="is shutting down"):
        batcher.submit([3])


def test_close_answers_what_waits(batcher, gate):
    waiting = batcher.submit([2])
    gate.opened.set()
    batcher.close()
    assert waiting.result(0) == [4]
    with pytest.raises(Overloaded, match="is shutting down"):
        batcher.submit([3])
