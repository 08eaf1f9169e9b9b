from albert_tf.tables import escaped, markdown_table, text_table


def test_columns_are_as_wide_as_their_widest_cell():
    rows = [("run", "loss"), ("a long name", "12.5"), ("b", "")]
    assert text_table(rows, left=1).splitlines() == [
        "run          loss",
        "a long name  12.5",
        "b",
    ]
    assert text_table([("a", "bc"), ("de", "f")], left=2) == "a   bc\nde  f"


def test_markdown_tables_are_aligned_too():
    assert markdown_table(["token", "n"], [["a|b", "1,000"]]).splitlines() == [
        "| token |     n |",
        "| ----- | ----: |",
        "| a\\|b  | 1,000 |",
    ]


def test_invisible_characters_are_escaped():
    assert escaped("a b\u00a0\u200b\n▁") == r"a b\xa0\u200b\n▁"
