import numpy as np

from albert_tf.finetuning.bag_of_words import word_vectorizer


def test_words_are_letters_of_any_number_and_single_ideographs():
    words = word_vectorizer().build_analyzer()
    assert words("A film, so-so: 好书 x2!") == [
        "a",
        "film",
        "so",
        "so",
        "好",
        "书",
        "x2",
    ]


def test_vectors_have_length_1_and_settings_are_those_of_scikit_learn():
    vectorizer = word_vectorizer(ngram_range=(1, 2), min_df=2)
    vectors = vectorizer.fit_transform(["a b", "a b c", "a"])
    assert sorted(vectorizer.vocabulary_) == ["a", "a b", "b"]
    assert np.allclose(vectors.multiply(vectors).sum(axis=1), 1)
