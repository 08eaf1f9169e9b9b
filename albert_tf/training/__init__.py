"""Training: the trainer, its train step, and everything that knows no task."""
