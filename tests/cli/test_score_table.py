from albert_tf.cli.evaluate import print_score_table

KNOWN = {"mlm_unigram_accuracy": 0.05, "sop_chance": 0.5}


def test_rows_are_printed_as_checkpoints_are_scored(capsys):
    def scored():
        for step in (900, 1000):
            shown.append(capsys.readouterr().out)
            scores = {"step": step, "loss": 2.0, "mlm_accuracy": 0.25}
            yield f"run/step-{step}", scores | KNOWN

    shown = []
    print_score_table(scored(), KNOWN, len("run/step-1000"))
    shown.append(capsys.readouterr().out)
    assert shown == [
        "",
        "checkpoint                step    loss  mlm_accuracy\n"
        "most frequent token                           0.0500\n"
        "run/step-900               900  2.0000        0.2500\n",
        "run/step-1000            1,000  2.0000        0.2500\n",
    ]


def test_other_metrics_get_a_heading(capsys):
    scored = [
        ("a", {"step": 1, "mlm_accuracy": 0.25} | KNOWN),
        ("b", {"step": 2, "rtd_accuracy": 0.75} | KNOWN),
        ("c", {"step": 3, "rtd_accuracy": 0.5} | KNOWN),
    ]
    print_score_table(scored, KNOWN, len("checkpoint"))
    assert [x.split() for x in capsys.readouterr().out.splitlines()] == [
        ["checkpoint", "step", "mlm_accuracy"],
        ["most", "frequent", "token", "0.0500"],
        ["a", "1", "0.2500"],
        ["checkpoint", "step", "rtd_accuracy"],
        ["b", "2", "0.7500"],
        ["c", "3", "0.5000"],
    ]


def test_no_baseline_row_without_baselines(capsys):
    print_score_table([("a", {"step": 1, "loss": 2.0})], {}, 1)
    assert len(capsys.readouterr().out.splitlines()) == 2
