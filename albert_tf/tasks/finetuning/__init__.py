"""Fine-tuning: from files of a task to a model folder, and predictions."""
