"""Training of any task: trainer, train step, optimizers, checkpoints."""
