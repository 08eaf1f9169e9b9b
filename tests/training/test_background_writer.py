import threading

import pytest

from albert_tf.training.background_writer import BackgroundWriter


def test_one_piece_of_work_at_a_time():
    done, go = [], threading.Event()

    def work(number):
        go.wait(timeout=30)
        done.append(number)

    with BackgroundWriter() as writer:
        writer.submit(lambda: work(1))
        assert done == []
        go.set()
        writer.submit(lambda: work(2))
        assert done[0] == 1
    assert done == [1, 2]


def test_trouble_comes_out_once():
    def fail():
        raise OSError("disk full")

    with BackgroundWriter() as writer:
        writer.submit(fail)
        with pytest.raises(OSError, match="disk full"):
            writer.submit(print)
        writer.wait()


def test_trouble_comes_out_at_the_end():
    with pytest.raises(ZeroDivisionError), BackgroundWriter() as writer:
        writer.submit(lambda: 1 / 0)
