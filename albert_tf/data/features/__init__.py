"""Examples as token IDs, labels and masks, and batches of them."""
