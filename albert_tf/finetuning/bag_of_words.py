"""TF-IDF of words, from which baselines are computed."""

from __future__ import annotations

from typing import Any

from albert_tf.optional_packages import import_package

# A bag of words is made from no more training examples than these, so that it
# takes seconds.
MAX_TRAINING = 20_000

# Words, also of one letter, and single ideographs and kana, as Chinese and
# Japanese have no blanks between words.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = rf"(?u)[{_CJK}]|[^\W{_CJK}]+"


def word_vectorizer(**settings: Any) -> Any:
    """Returns scikit-learn's TF-IDF of words, also of single letters."""
    text = import_package("sklearn.feature_extraction.text", "baselines")
    if "analyzer" not in settings:
        settings["token_pattern"] = _WORD
    return text.TfidfVectorizer(sublinear_tf=True, **settings)
