"""One module a system: how it lays a checkpoint out."""
