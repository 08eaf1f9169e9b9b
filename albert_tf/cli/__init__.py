"""The command line: one module a command, flags above one function call."""
