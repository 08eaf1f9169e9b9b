"""The one exception that means "the input is wrong, not the program"."""


class InputError(ValueError):
    """Something the user gave cannot be used: a file, a flag, a record.

    The message is one line that says what is wrong, where, and what to do. The
    command line prints it and exits with status 2.
    """
