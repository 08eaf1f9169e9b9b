"""Averages the encoders of two models that were trained from the same one.

    python examples/average_models.py --first=run --second=embeddings \
        --weight=0.5 --output=averaged

The result has the heads of the first model. Where the second was trained from
the first for a short time, the average keeps the first's head of masked words
valid and most of what the second has learned (arXiv:2109.01903).
"""

import argparse
import dataclasses

from albert_tf import AlbertEncoder, AlbertPretrainer, load_tokenizer
from albert_tf.errors import InputError, exit_on_input_error
from albert_tf.interop.open_checkpoint import open_checkpoint

# Settings that do not change what the weights mean.
OF_TRAINING = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "trained_positions",
)


def average(first, second, weight):
    """Sets the encoder of `first` to the average of both models.

    Args:
      first: `AlbertPretrainer`.
      second: `AlbertEncoder` of the same architecture; it may lack the pooler.
      weight: share of `second`, from 0 to 1.
    """
    if not 0 <= weight <= 1:
        raise InputError(f"weight={weight} must be between 0 and 1")
    check_architectures(first.config, second.config)
    others = {name(x): x for x in second.weights}
    for variable in first.encoder.weights:
        other = others.pop(name(variable), None)
        if other is not None:
            variable.assign(variable + weight * (other - variable))
    if others:
        raise InputError(f"only the second model has {', '.join(others)}")


def check_architectures(first, second):
    """Checks that weights mean the same in both models.

    Equal shapes are not enough: layers that share weights have the shapes of a
    single one, whatever their number.
    """
    first, second = map(settings_of_weights, (first, second))
    for setting, value in first.items():
        if value != second[setting]:
            raise InputError(
                f"{setting} is {value} in the first model and "
                f"{second[setting]} in the second; give a second model that "
                "was trained from the first"
            )


def settings_of_weights(config):
    """Returns the settings that weights depend on, as a dictionary."""
    settings = dataclasses.asdict(config)
    for setting in OF_TRAINING:
        del settings[setting]
    # Only matters for equal sizes.
    settings["project_equal_sizes"] = config.has_embedding_projection
    return settings


def name(variable):
    """Returns the path of a variable within its encoder."""
    return variable.path.partition("/")[2]


def main(arguments=None):
    """Writes the average."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--first", required=True, help="model or pretraining run; gives heads")
    add("--second", required=True, help="model trained from the first")
    add("--weight", type=float, default=0.5, help="share of the second")
    add("--output", required=True, help="folder to write")
    given = parser.parse_args(arguments)
    heads = open_checkpoint(given.first).components
    model = AlbertPretrainer.from_pretrained(
        given.first, sop_head="sop_head" in heads
    )
    second = AlbertEncoder.from_pretrained(given.second)
    if model.tokenizer and second.tokenizer:
        if model.tokenizer.fingerprint != second.tokenizer.fingerprint:
            raise InputError("the models have different vocabularies")
    average(model, second, given.weight)
    model.save_pretrained(given.output, load_tokenizer(given.first))
    print(f"wrote {given.output}")


if __name__ == "__main__":
    with exit_on_input_error("average_models"):
        main()
