"""`python -m albert_tf COMMAND --flags`."""

from albert_tf.cli.main import run

run()
