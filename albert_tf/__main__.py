"""`python -m albert_tf COMMAND --flags`, also installed as `albert`."""

import os
import sys

INTERRUPTED = 130  # 128 + SIGINT, as in shells


def run() -> None:
    """Runs the command line; Ctrl-C prints one line, at any time."""
    try:
        # Imported here, so that an interrupt is caught during the import too.
        from albert_tf.cli.main import run as run_command

        run_command()
    except KeyboardInterrupt:
        print("albert: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    # `python -m` imports modules from the current folder, `albert` does not.
    if sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    run()
