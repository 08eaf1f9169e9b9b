"""Pretraining objectives: heads, corruption, losses, and scores of guessing."""
