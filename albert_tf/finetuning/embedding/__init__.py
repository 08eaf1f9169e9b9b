"""Sentence embeddings, trained on pairs of texts or on texts alone."""
