"""Convert checkpoints: Google, Hugging Face, KerasHub, TF-Hub, Model Garden."""

from __future__ import annotations

import sys

from absl import flags

_INPUT = flags.DEFINE_string(
    "input",
    None,
    "The checkpoint: a folder, an archive, a file, or a name such as "
    "albert/albert-base-v2 or kaggle://keras/albert/keras/... .",
    required=True,
)
_OUTPUT = flags.DEFINE_string("output", None, "Folder to make.", required=True)
_TO = flags.DEFINE_enum(
    "to",
    "huggingface",
    ["huggingface", "google", "keras_hub"],
    "Format to write. huggingface is also this library's own.",
)
_HEAD = flags.DEFINE_enum(
    "head",
    None,
    ["classifier", "multiple_choice", "token_classifier"],
    "The task head, where the checkpoint does not tell which it is.",
)
_DROP = flags.DEFINE_list(
    "drop", [], "Parts to leave out, such as sop_head or pooler."
)
_CONFIG = flags.DEFINE_string(
    "config",
    None,
    "Architecture of a TensorFlow checkpoint without a config file: an "
    "official name or a JSON file.",
)
_OVERRIDES = flags.DEFINE_string(
    "config_overrides",
    "",
    "Changes to the config, such as num_attention_heads=32.",
)
_REVISION = flags.DEFINE_string(
    "revision", None, "Branch, tag or commit of a name on the Hugging Face hub."
)
_OVERWRITE = flags.DEFINE_boolean(
    "overwrite", False, "Replace an earlier result in the output folder."
)

_HEADS = {
    "classifier": "classifier_head",
    "multiple_choice": "choice_head",
    "token_classifier": "token_head",
}


def main() -> None:
    """Converts, and says what was read, left and written."""
    # Imported here: help and wrong flags need not wait for NumPy.
    from albert_tf.cli.architecture import named_config, parse_overrides
    from albert_tf.interop.convert import convert

    checkpoint = convert(
        _INPUT.value,
        _OUTPUT.value,
        to=_TO.value,
        head=_HEADS.get(_HEAD.value),
        drop=_DROP.value,
        config=named_config(_CONFIG.value) if _CONFIG.value else None,
        config_overrides=parse_overrides(_OVERRIDES.value),
        revision=_REVISION.value,
        overwrite=_OVERWRITE.value,
        progress=_show_progress,
    )
    print(checkpoint.report())
    for part in _DROP.value:
        print(f"dropped: {part}")
    print(f"wrote {_OUTPUT.value} ({_TO.value})")


def _show_progress(done: int, total: int) -> None:
    """A line that counts up on a terminal, a line every tenth in a log."""
    end = "\n" if done == total else "\r"
    if sys.stderr.isatty() or done * 10 // total > (done - 1) * 10 // total:
        end = end if sys.stderr.isatty() else "\n"
        print(f"{done} of {total} tensors", end=end, file=sys.stderr)
