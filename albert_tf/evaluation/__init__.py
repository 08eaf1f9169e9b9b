"""Evaluation of pretraining runs and fine-tuned models."""
