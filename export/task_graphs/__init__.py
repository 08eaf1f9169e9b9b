"""Tasks from strings to answers, one module a kind; see `TaskGraph`."""
