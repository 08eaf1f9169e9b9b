"""Text to a vocabulary, a pretrained encoder, SavedModels and a classifier.

Without --input it uses English text that is already on the machine.
"""

from __future__ import annotations

import itertools
import os

from absl import flags

_DEFAULT_OUTPUT = "runs/demo"

_INPUT = flags.DEFINE_string(
    "input", None, "Your text files: glob patterns separated by commas."
)
_TEXT_FORMAT = flags.DEFINE_enum(
    "text_format",
    "prose",
    ["lines", "prose", "wikiextractor"],
    "How they are written; see `albert create-data --help`.",
)
_LANGUAGE = flags.DEFINE_string(
    "language", "en", "ISO 639 code of its language."
)
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    f"Folder to make; default: {_DEFAULT_OUTPUT}, or with a number after it.",
)
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 4000, "Number of pieces.")
_STEPS = flags.DEFINE_integer(
    "num_train_steps", 3000, "Steps of the pretraining."
)
_CLASSIFIER_EXAMPLES = flags.DEFINE_integer(
    "classifier_examples", 1200, "Passages that the classifier trains on."
)
_SEED = flags.DEFINE_integer("seed", 1, "Of everything random.")


def main() -> None:
    """Runs the demo that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.demo.chain import DemoConfig, run_demo

    run_demo(
        DemoConfig(
            output=_OUTPUT.value or _free_folder(),
            input_patterns=_INPUT.value,
            text_format=_TEXT_FORMAT.value,
            language=_LANGUAGE.value,
            vocab_size=_VOCAB_SIZE.value,
            num_train_steps=_STEPS.value,
            classifier_examples=_CLASSIFIER_EXAMPLES.value,
            seed=_SEED.value,
        )
    )


def _free_folder() -> str:
    numbered = (f"{_DEFAULT_OUTPUT}-{number}" for number in itertools.count(2))
    names = itertools.chain([_DEFAULT_OUTPUT], numbered)
    return next(name for name in names if not os.path.exists(name))
