"""Changes of hidden states from layer to layer, and under further iterations.

Figure 1 of the paper shows how far each layer moves its input. Layers that
share their weights are one map that is applied repeatedly, as in Universal
Transformers (arXiv:1807.03819). Deep Equilibrium Models (arXiv:1909.01377) find
that such a map converges to a fixed point; the paper's authors observed that
ALBERT's states oscillate instead.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.analysis.encoders import Model, NamedEncoder, open_encoders
from albert_tf.analysis.figures import (
    COLOURS,
    import_pyplot,
    label_lines,
    save_figure,
)
from albert_tf.errors import InputError
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.tables import markdown_table

# A token has settled if it moves by less than this share of its norm.
SETTLED = 0.01

# Floats of the states of a batch: 64 MiB, and a few times that in temporaries.
_MAX_NUMBERS = 2**24


@dataclasses.dataclass(frozen=True, kw_only=True)
class StateChanges:
    """How the hidden states of a model change from layer to layer.

    State 0 is the input of the first layer, state n the output of layer n or,
    beyond the last layer, of applying that layer once more. Numbers are means
    over real tokens. Tuples have a value for each state or, if they compare it
    with the previous state, for each but state 0.

    Attributes:
      name: name of the model.
      sharing: `sharing` of its config.
      num_layers: its number of layers.
      tokens: number of real tokens.
      norm: L2 norm of each state.
      distance: L2 distance to the previous state.
      cosine: cosine similarity to the previous state.
      angle: angle to the previous state in degrees.
      to_last: L2 distance of each state to the last one.
      turn: cosine of each step and the previous step, from the second step on:
        near 1 if states move straight on, below 0 if they turn back.
      settled: share of tokens whose last step is shorter than `SETTLED` times
        their norm.
      oscillating: share of tokens that have not settled and come back: in the
        second half of the iterations, they are at least twice as far from their
        last state as they were before.
    """

    name: str
    sharing: str
    num_layers: int
    tokens: int
    norm: tuple[float, ...]
    distance: tuple[float, ...]
    cosine: tuple[float, ...]
    angle: tuple[float, ...]
    to_last: tuple[float, ...]
    turn: tuple[float, ...]
    settled: float
    oscillating: float

    @property
    def moving(self) -> float:
        """Share of tokens that neither settle nor return."""
        return 1.0 - self.settled - self.oscillating

    @property
    def iterated(self) -> bool:
        """Whether the last layer was applied more than once."""
        return len(self.distance) > self.num_layers


@dataclasses.dataclass(frozen=True)
class SimilarityReport:
    """The result of `analyze_similarity`.

    Attributes:
      models: the changes of states of each model.
    """

    models: tuple[StateChanges, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns the numbers as JSON values."""
        return dataclasses.asdict(self)

    def table(self) -> str:
        """Formats figure 1 and the effect of iterations as Markdown tables."""
        header, rows = ["layer"], []
        for each in self.models:
            header += [f"{each.name}: L2", "cosine", "degrees"]
        for layer in range(max(x.num_layers for x in self.models)):
            rows.append([f"{layer + 1}"])
            for x in self.models:
                cells = [""] * 3
                if layer < x.num_layers:
                    cells = [
                        f"{x.distance[layer]:.2f}",
                        f"{x.cosine[layer]:.3f}",
                        f"{x.angle[layer]:.1f}",
                    ]
                rows[-1] += cells
        tables = [markdown_table(header, rows)]
        if any(x.iterated for x in self.models):
            tables.append(self._iteration_table())
        return "\n\n".join(tables)

    def _iteration_table(self) -> str:
        header = ["last layer applied further", "iterations", "L2 of the step"]
        header += ["of the norm", "settled", "oscillating", "moving on"]
        rows = []
        for x in self.models:
            shares = [f"{n:.0%}" for n in (x.settled, x.oscillating, x.moving)]
            last = len(x.distance)
            for n, cells in ((x.num_layers, [""] * 3), (last, shares)):
                step = x.distance[n - 1]
                numbers = [f"{n}", f"{step:.2f}", f"{step / x.norm[n]:.1%}"]
                name = f"{x.name} (sharing {x.sharing})"
                rows.append([name, *numbers, *cells])
        return markdown_table(header, rows)

    def plot(self, output: str | os.PathLike[str]) -> None:
        """Draws figure 1 of the paper, and the effect of iterations.

        Args:
          output: image file to write; its suffix selects the format.

        Raises:
          InputError: if the file cannot be written, or matplotlib is not
            installed.
        """
        pyplot = import_pyplot()
        mosaic = ["AAABBB"]
        if any(x.iterated for x in self.models):
            mosaic.append("CCDDEE")
        figure, axes = pyplot.subplot_mosaic(
            "\n".join(mosaic),
            figsize=(10, 3.4 * len(mosaic)),
            layout="constrained",
        )
        for key, field, label in (
            ("A", "distance", "L2 distance"),
            ("B", "angle", "angle, degrees"),
        ):
            self._draw(axes[key], field, label, "layer", whole=False)
            axes[key].set_ylim(bottom=0)
        label_lines(axes["B"])
        axes["A"].set_title(
            "From the input to the output of each layer", loc="left", size=10
        )
        if "C" in axes:
            for key, field, label in (
                ("C", "distance", "L2 distance to the previous state"),
                ("D", "to_last", "L2 distance to the last state"),
                ("E", "turn", "cosine of a step and the previous one"),
            ):
                self._draw(axes[key], field, label, "iterations", whole=True)
                for layers in {x.num_layers for x in self.models}:
                    axes[key].axvline(layers, color="grey", ls=":", lw=1)
            for key in "CD":
                axes[key].set_ylim(bottom=0)
            axes["E"].set_ylim(-1.05, 1.05)
            axes["E"].axhline(0, color="grey", lw=0.8)
            axes["C"].set_title(
                "The last layer applied further (dotted: layers of the model)",
                loc="left",
                size=10,
            )
        save_figure(figure, output)

    def _draw(
        self, axis: Any, field: str, label: str, unit: str, *, whole: bool
    ) -> None:
        """Draws a field of all models over layers, or over all iterations."""
        for number, each in enumerate(self.models):
            values = getattr(each, field)
            # Number of the first state that has a value.
            first = len(each.norm) - len(values)
            last = len(values) if whole else each.num_layers
            axis.plot(
                range(first, first + last),
                values[:last],
                color=COLOURS[number % len(COLOURS)],
                marker=None if whole else "o",
                ms=3.5,
                lw=1.8,
                label=each.name,
            )
        axis.set_xlabel(unit)
        axis.set_ylabel(label)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)


def analyze_similarity(
    models: Model | Sequence[Model] | Mapping[str, Model],
    texts: str | Sequence[str],
    *,
    iterations: int = 48,
    max_seq_length: int = 128,
    config_overrides: Mapping[str, Any] | None = None,
) -> SimilarityReport:
    """Measures how far each layer moves its input (paper, figure 1).

    For example, to compare shared with unshared layers:

        report = analyze_similarity(
            {"shared": "run", "unshared": "unshared_run"}, texts
        )
        print(report.table())
        report.plot("similarity.png")

    Args:
      models: a checkpoint of any supported format or a model, several, or
        name -> model.
      texts: one text or several. Those without tokens are left out.
      iterations: total number of times that a layer is applied. A model with
        fewer layers applies its last layer again, which is the same map for all
        layers if they share their weights. Deeper models apply all layers.
      max_seq_length: maximum number of tokens per text.
      config_overrides: adds a model with random weights and the architecture of
        the first model with these changes, such as `{"sharing": "none"}`.

    Raises:
      InputError: if a checkpoint cannot be opened, there is no text, or the
        states of a model are not finite.
    """
    if iterations < 0:
        raise InputError(f"iterations={iterations} must be at least 0")
    encoders = open_encoders(models)
    if config_overrides is not None:
        encoders.append(_random_encoder(encoders[0], config_overrides))
    texts = [texts] if isinstance(texts, str) else list(texts)
    return SimilarityReport(
        tuple(_changes(x, texts, iterations, max_seq_length) for x in encoders)
    )


def _random_encoder(
    like: NamedEncoder, overrides: Mapping[str, Any]
) -> NamedEncoder:
    config = like.encoder.config.replace(**overrides)
    changes = [f"{name}={value}" for name, value in overrides.items()]
    # Keras draws the seeds of new weights from this generator.
    state = random.getstate()
    random.seed(0)
    try:
        encoder = AlbertEncoder(config, pooler=False)
    finally:
        random.setstate(state)
    name = ", ".join(["random", *changes])
    return NamedEncoder(name, encoder, like.tokenizer)


def _changes(
    model: NamedEncoder,
    texts: Sequence[str],
    iterations: int,
    max_seq_length: int,
) -> StateChanges:
    config = model.encoder.config
    states = 1 + max(config.num_hidden_layers, iterations)
    numbers_per_text = states * max_seq_length * config.hidden_size
    batch_size = max(1, _MAX_NUMBERS // numbers_per_text)
    sums: dict[str, np.ndarray] = {}
    tokens = 0
    for start in range(0, len(texts), batch_size):
        batch = texts[start : start + batch_size]
        inputs = model.encode(batch, max_seq_length=max_seq_length)
        # Leave out texts with no token but [CLS] and [SEP].
        nonempty = inputs["input_mask"].sum(1) > 2
        inputs = {name: array[nonempty] for name, array in inputs.items()}
        if not nonempty.any():
            continue
        found = _measures(_states(model.encoder, inputs, iterations))
        tokens += len(found["settled"])
        for name, values in found.items():
            sums[name] = sums.get(name, 0) + values.sum(-1)
    if not tokens:
        raise InputError("there is no text to analyze; all texts are empty")
    if not np.isfinite(sums["norm"]).all():
        raise InputError(f"the states of {model.name} are not finite")
    means: dict[str, Any] = {}
    for name, total in sums.items():
        mean = (total / tokens).tolist()
        means[name] = tuple(mean) if isinstance(mean, list) else mean
    return StateChanges(
        name=model.name,
        sharing=config.sharing,
        num_layers=config.num_hidden_layers,
        tokens=tokens,
        **means,
    )


def _states(
    encoder: AlbertEncoder, inputs: Mapping[str, np.ndarray], iterations: int
) -> np.ndarray:
    """Returns the states of all real tokens, `[states, tokens, hidden]`."""
    rows, layout = encoder.embed(inputs)
    inner = encoder.config.inner_group_num
    states = [rows, *encoder.stack(rows, layout=layout)[inner - 1 :: inner]]
    while len(states) <= iterations:
        block = encoder.stack(states[-1], layout=layout, first_block=-inner)
        states.append(block[-1])
    real = inputs["input_mask"].astype(bool)
    ops = keras.ops
    return np.stack(
        [
            ops.convert_to_numpy(ops.cast(layout.restore(x), "float32"))[real]
            for x in states
        ]
    )


def _measures(states: np.ndarray) -> dict[str, np.ndarray]:
    """Computes the numbers of `StateChanges` per token, `[..., tokens]`."""
    norms = np.linalg.norm(states, axis=-1)
    steps = np.diff(states, axis=0)
    lengths = np.linalg.norm(steps, axis=-1)
    # More accurate for small angles than the arc cosine of the dot product.
    directions = states / np.maximum(norms, 1e-12)[..., None]
    chords = np.linalg.norm(np.diff(directions, axis=0), axis=-1)
    angles = 2 * np.arcsin(np.minimum(chords / 2, 1.0))
    products = np.sum(steps[1:] * steps[:-1], axis=-1)
    to_last = np.linalg.norm(states - states[-1], axis=-1)
    settled = lengths[-1] < SETTLED * norms[-1]
    # In reverse order, from the last state, whose distance is 0.
    back = to_last[len(states) // 2 :][::-1]
    farthest = np.maximum.accumulate(back, axis=0)
    returns = (back[2:] < farthest[2:] / 2).any(0) & (farthest[-1] > 0)
    return {
        "norm": norms,
        "distance": lengths,
        "cosine": np.cos(angles),
        "angle": np.degrees(angles),
        "to_last": to_last,
        "turn": products / np.maximum(lengths[1:] * lengths[:-1], 1e-12),
        "settled": settled,
        "oscillating": returns & ~settled,
    }
