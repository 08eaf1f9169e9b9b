"""Text to pretraining records, and records to training examples."""
