import io
import sys

from albert_tf.training.progress import Progress

METRICS = {
    "loss": 2.5,
    "mlm_accuracy": 0.25,
    "gradient_norm": 1.0,
    "tokens_per_second": 1234.0,
}


def report():
    progress = Progress(total_steps=100, step=40)
    progress.advance(10)
    progress.report(50, "train", METRICS)
    progress.report(50, "eval", {"loss": 3.5})
    progress.close()


def test_terminal_gets_one_live_line(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    report()
    text = terminal.getvalue()
    assert "50/100" in text
    assert "loss 2.5, mlm_accuracy 0.25, tokens_per_second 1,234" in text
    assert "step 50, eval: loss 3.5\n" in text
    assert text.count("\n") == 2


def test_file_gets_a_line_a_report(capsys):
    report()
    assert capsys.readouterr().err.splitlines() == [
        "step 50/100, train: loss 2.5, mlm_accuracy 0.25, "
        "tokens_per_second 1,234",
        "step 50/100, eval: loss 3.5",
    ]
