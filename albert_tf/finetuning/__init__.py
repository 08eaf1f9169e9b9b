"""Fine-tuning: task types, runs, predictions and scores."""
