"""Settings of the phases of a pretraining run."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.data.data_config import (
    MaskingConfig,
    PretrainingDataConfig,
    SentenceOrder,
)
from albert_tf.errors import InputError, shown
from albert_tf.input_files import parse_json, read_text
from albert_tf.settings import (
    check_settings,
    overriding,
    require,
    setting,
    settings_of,
)
from albert_tf.training.config import RunConfig

BATCH_SETTINGS = ("train_batch_size", "gradient_accumulation_steps")
DEPTH = ("num_hidden_layers",)
# For text records (`masking="dynamic"`), whose examples are made in training.
EXAMPLE_SETTINGS = (
    "sentence_order",
    "masked_lm_prob",
    "max_predictions_per_seq",
    "ngram",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Settings of consecutive steps; None: the setting of the run.

    The sequence length is that of the phase's records. The depth can be set if
    all layers share their weights, which then stay the same. Sentence order and
    masking can be set for text records (`masking="dynamic"`); the default is
    the settings of create-data.
    """

    steps: int | None = setting(None, "Steps of the phase.", bounds="[1, inf)")
    share: float | None = setting(
        None, "Fraction of all steps, instead of `steps`.", bounds="(0, 1]"
    )
    input: str | Sequence[str] | None = setting(
        None, "Records, as in --input; for example of another length."
    )
    train_batch_size: int | None = overriding(RunConfig, "train_batch_size")
    gradient_accumulation_steps: int | None = overriding(
        RunConfig, "gradient_accumulation_steps"
    )
    num_hidden_layers: int | None = overriding(
        AlbertConfig, "num_hidden_layers"
    )
    sentence_order: SentenceOrder | None = overriding(
        PretrainingDataConfig, "sentence_order"
    )
    masked_lm_prob: float | None = overriding(MaskingConfig, "masked_lm_prob")
    max_predictions_per_seq: int | None = overriding(
        MaskingConfig, "max_predictions_per_seq"
    )
    ngram: int | None = overriding(MaskingConfig, "ngram")

    def __post_init__(self) -> None:
        check_settings(self)
        require(
            self,
            "share",
            self.share is None or self.steps is None,
            f"left out beside steps={self.steps}",
        )

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Returns those of the named settings that the phase sets."""
        values = {name: getattr(self, name) for name in names}
        return {name: x for name, x in values.items() if x is not None}


def as_phases(values: Iterable[Phase | Mapping[str, Any]]) -> list[Phase]:
    """Converts mappings to phases; errors have their numbers, from 0."""
    phases = []
    known = [declared.name for declared in settings_of(Phase)]
    for number, value in enumerate(values):
        source = f"phases[{number}]"
        if isinstance(value, Phase):
            phases.append(value)
            continue
        if not isinstance(value, Mapping):
            raise InputError(f"{source}={shown(value)} must be an object")
        for name in value:
            if name not in known:
                raise InputError(f"{source}: {_unknown(str(name), known)}")
        try:
            phases.append(Phase(**value))
        except InputError as error:
            raise InputError(f"{source}: {error}") from None
    return phases


def _unknown(name: str, known: Sequence[str]) -> str:
    if name == "max_seq_length":
        return (
            "max_seq_length is set by the records; make records of that length "
            "with create-data, and pass them as input"
        )
    close = difflib.get_close_matches(name, known, 1)
    hint = f"expected {', '.join(known)}"
    if close:
        hint = f"did you mean {close[0]!r}?"
    return f"unknown key {name!r}; {hint}"


def parse_phases(text: str) -> list[Phase]:
    """Parses `--phases`: a JSON list of objects, or a file with one."""
    source = "--phases"
    if not text.strip():
        raise InputError(f"{source} must not be empty")
    if not text.lstrip().startswith(("[", "{")):
        source, text = text, read_text(text)
    values = parse_json(text, source)
    if not isinstance(values, list):
        raise InputError(
            f"{source}: expected a JSON list with one object per phase"
        )
    try:
        return as_phases(values)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def ends_of_phases(phases: Sequence[Phase], num_train_steps: int) -> list[int]:
    """Returns the step after which each phase ends.

    The phases must add up to the steps of the run.
    """
    lengths: list[float | None] = [
        phase.steps if phase.share is None else phase.share * num_train_steps
        for phase in phases
    ]
    rest = [number for number, length in enumerate(lengths) if length is None]
    if len(rest) > 1:
        raise InputError(
            f"phases[{rest[0]}] and phases[{rest[1]}] have neither steps nor "
            "share; only one phase can take the rest of the steps"
        )
    total = math.fsum(length for length in lengths if length is not None)
    if not rest and abs(total - num_train_steps) > 1e-6 * num_train_steps:
        raise InputError(
            f"phases: their steps add up to {total:,g}, but num_train_steps="
            f"{num_train_steps}; change it, or leave out the steps of one "
            "phase, which then takes the rest"
        )
    known = [num_train_steps - total if x is None else x for x in lengths]
    ends = [math.floor(end + 0.5) for end in itertools.accumulate(known)]
    ends[-1] = num_train_steps
    for number, (first, end) in enumerate(itertools.pairwise([0, *ends])):
        if end <= first:
            raise InputError(
                f"phases[{number}] has none of the {num_train_steps} steps of "
                "num_train_steps; change the lengths of the phases"
            )
    return ends
