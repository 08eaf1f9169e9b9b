"""Kinds of tasks: labels of texts, options, answers in a context, words."""
