"""Examples of tasks: what is read from files, before any tokenizer."""
