"""`python -m albert_tf COMMAND --flags`, also installed as `albert`."""

import os
import sys

INTERRUPTED = 130  # 128 + SIGINT, as in shells


def run() -> None:
    """Runs the command line; Ctrl-C prints one line, at any time."""
    _open_standard_streams()
    try:
        # Imported here, so that an interrupt is caught during the import too.
        from albert_tf.cli.main import run as run_command

        run_command()
    except KeyboardInterrupt:
        print("albert: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _open_standard_streams() -> None:
    """Opens the null device for each standard stream that is closed.

    Otherwise the first files that are opened would take their places, and what
    is written to the streams.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, closefd=False))


if __name__ == "__main__":
    # `python -m` imports modules from the current folder, `albert` does not.
    if sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    run()
