"""Text: normalizer, tokenizer, in-graph preprocessor, vocabulary training."""
