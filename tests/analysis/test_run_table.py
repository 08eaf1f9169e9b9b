from albert_tf.analysis.runs import LogLine, RunLog, run_table

TRAIN = {"loss": 2.0, "mlm_accuracy": 0.3, "tokens_per_second": 1500.0}
RUN = RunLog(
    "first",
    (
        LogLine(10, "train", TRAIN, 60.0, 1e6),
        LogLine(10, "eval", {"loss": 2.5, "mlm_accuracy": 0.3}, 90.0, 1e6),
        LogLine(20, "train", TRAIN | {"loss": 1.0}, 120.0, 2e6),
        LogLine(20, "eval", {"loss": 3.5, "mlm_accuracy": 0.4}, 150.0, 2e6),
    ),
    1000,
)


def rows(*runs, baselines=None):
    table = run_table(runs, baselines).splitlines()
    return [[cell.strip() for cell in row.split("  ") if cell] for row in table]


def test_latest_and_best_scores():
    assert rows(RUN) == [
        "run,scores,step,minutes,tokens,tokens/s,loss,mlm_accuracy".split(","),
        ["first", "held out", "20/1,000", "2.5", "2.0 M", "1,500"]
        + ["3.5000", "0.4000"],
        ["first", "held out, best", "2.5000", "0.4000"],
        ["first", "train", "20/1,000", "2.0", "2.0 M", "1,500"]
        + ["1.0000", "0.3000"],
    ]


def test_a_run_without_evaluation_and_tokens():
    other = RunLog("other", (LogLine(7, "train", {"loss": 4.0}, 6.0, None),), 9)
    assert rows(RUN, other)[-1] == ["other", "train", "7/9", "0.1", "4.0000"]


def test_baselines():
    table = run_table([RUN], {"mlm_unigram_accuracy": 0.05, "sop_chance": 0.5})
    header, *_, last = table.splitlines()
    assert last.split() == ["guessing", "0.0500"]
    assert len(last) == len(header)


def test_shortcuts_of_sentence_order_have_rows():
    values = {"loss": 2.0, "sop_accuracy": 0.6}
    run = RunLog("run", (LogLine(7, "train", values, 6.0, None),), 9)
    known = {"sop_chance": 0.5, "sop_rule": 0.51, "sop_shallow": 0.56}
    lines = run_table([run], known).splitlines()[-3:]
    assert [line.split() for line in lines] == [
        ["guessing", "0.5000"],
        ["punctuation", "rule", "0.5100"],
        ["shallow", "classifier", "0.5600"],
    ]
