import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples


def test_stop_raises_one_line():
    bad = BadExamples()
    with pytest.raises(InputError, match="^a.tsv:3: no label; mend") as caught:
        bad.report("a.tsv:3", "no label;\n mend it")
    assert "\n" not in str(caught.value)
    assert "--on_bad_example=skip" in str(caught.value)
    assert bad.counted == 1


def test_skip_counts_all_and_keeps_the_first():
    bad = BadExamples("skip", max_lines=2)
    assert bad.summary() == "no bad examples"
    for line in range(5):
        bad.report(f"a.tsv:{line}", "the text is empty")
    assert bad.counted == 5
    assert bad.lines == [
        "a.tsv:0: the text is empty",
        "a.tsv:1: the text is empty",
    ]
    assert bad.summary().splitlines() == [
        "5 bad examples left out",
        "  a.tsv:0: the text is empty",
        "  a.tsv:1: the text is empty",
        "  and 3 more",
    ]


def test_other_policies_are_refused():
    with pytest.raises(InputError, match="on_bad_example='warn' must be one"):
        BadExamples("warn")
