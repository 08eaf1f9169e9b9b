"""The whole chain, from text to a fine-tuned classifier, in minutes."""
