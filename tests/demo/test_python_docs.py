import pytest

from albert_tf.demo.corpora import prose_paragraphs, python_documents


def test_only_prose_is_kept():
    docstring = """Return the first element of the list that is given.

    The elements are compared one after the other, and
    the *first* one that is equal is what ``index`` returns.

    >>> index([1, 2, 3], 2)

    Args:
      values: a list in which to look for the element to be found.

    ========  =========
    a         b
    """
    assert prose_paragraphs(docstring) == [
        "Return the first element of the list that is given.",
        "The elements are compared one after the other, and the first one "
        "that is equal is what index returns.",
    ]


@pytest.mark.long
def test_much_text_and_no_repeated_paragraph():
    documents = list(python_documents(["numpy", "no_such_package"]))
    assert {source for source, _ in documents} == {"python", "numpy"}
    paragraphs = [p.lower() for _, texts in documents for p in texts]
    assert len(set(paragraphs)) == len(paragraphs)
    # 960,000 to 1.2 million characters with NumPy 2.2 to 2.5; the demo needs
    # enough for a vocabulary of 4000 and some held-out documents.
    assert sum(map(len, paragraphs)) > 500_000
