"""The studies of the paper, repeated at a size that one machine can do."""
