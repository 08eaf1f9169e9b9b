"""What a task is: a model's loss and metrics on its data."""
