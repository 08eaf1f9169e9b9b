"""From the scores of span heads to answers in words."""
