"""Statistics of pretraining records as text and as a figure."""

from __future__ import annotations

import collections
import os
import textwrap
from collections.abc import Iterator, Mapping

import numpy as np

from albert_tf.analysis.figures import COLOURS, import_pyplot, save_figure
from albert_tf.analysis.records import (
    MaskedExample,
    RecordStatistics,
    total_length,
)
from albert_tf.data.masking import KEEP_SHARE, MASK_SHARE
from albert_tf.tables import escaped
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.wordpiece_tokenizer import (
    CONTINUATION,
    AlbertWordPieceTokenizer,
)

_WIDTH = 80
_NAME_WIDTH = 17
_QUANTILES = {"min": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "max": 1.0}
_FREQUENT_LABELS = 10
_LONGEST_SPAN = 10  # in the figure
_LABELS = {"sop": ("in order", "swapped"), "nsp": ("next", "random")}


def record_table(statistics: RecordStatistics) -> str:
    """Formats statistics as lines of a name and its values."""
    return "\n".join(
        textwrap.fill(
            f"{name:{_NAME_WIDTH}} {text}",
            _WIDTH,
            subsequent_indent=" " * (_NAME_WIDTH + 1),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, text in _rows(statistics)
    )


def _rows(found: RecordStatistics) -> Iterator[tuple[str, str]]:
    measured = f"{found.num_records:,}"
    if found.num_measured < found.num_records:
        measured += f"; statistics of the first {found.num_measured:,}"
    yield "records", measured
    yield (
        "tokens per record",
        f"mean {_mean(found.lengths):.1f} of {found.max_seq_length:,}; "
        + _quantiles_text(found.lengths),
    )
    if found.sequences[2:].any():
        yield (
            "sequences",
            f"mean {_mean(found.sequences):.2f} per record; "
            + _quantiles_text(found.sequences),
        )
        yield (
            "sequence length",
            f"mean {_mean(found.sequence_lengths):.1f}; "
            + _quantiles_text(found.sequence_lengths),
        )
    yield "padding", f"{found.padding_fraction:.1%}"
    kept = found.kept_fraction
    yield "text kept", "unknown" if kept is None else f"{kept:.1%}"
    yield (
        "masking rate",
        f"{found.masking_rate:.1%} of the tokens, "
        f"{_mean(found.predictions):.1f} predictions per record",
    )
    for unit, spans in (
        ("tokens", found.span_tokens),
        ("words", found.span_words),
    ):
        if spans is not None and spans.any():
            yield f"span {unit}", _shares_of_lengths(spans)
    shares = found.replacement_shares.items()
    text = ", ".join(f"{name} {share:.1%}" for name, share in shares)
    if found.tokenizer is None and text:
        text += f" ([MASK] is taken to be id {found.mask_id}, the most common)"
    yield "replaced by", text or "nothing is masked"
    if found.swapped_fraction is None:
        yield "sentence order", "no pairs"
    else:
        one, other = _LABELS[found.pair_task]
        yield (
            "sentence order",
            f"{found.pair_task}: {1 - found.swapped_fraction:.1%} {one}, "
            f"{found.swapped_fraction:.1%} {other}; pairs: "
            f"{sum(found.labels) / found.sequence_lengths.sum():.1%}",
        )
    yield from _vocabulary_rows(found)


def _mean(histogram: np.ndarray) -> float:
    return total_length(histogram) / max(1, int(histogram.sum()))


def _quantiles_text(histogram: np.ndarray) -> str:
    """Formats the quantiles of a histogram."""
    below = np.cumsum(histogram)
    ranks = [max(1, int(np.ceil(q * below[-1]))) for q in _QUANTILES.values()]
    lengths = np.searchsorted(below, ranks).tolist()
    return ", ".join(
        f"{name} {length:,}"
        for name, length in zip(_QUANTILES, lengths, strict=True)
    )


def _shares_of_lengths(histogram: np.ndarray) -> str:
    """Formats the mean, and the shares of lengths 1 to 5 and above."""
    shares = histogram / histogram.sum()
    parts = [f"{n}: {share:.1%}" for n, share in enumerate(shares[:6]) if n]
    parts.append(f"more: {shares[6:].sum():.1%}")
    return f"mean {_mean(histogram):.2f}; {', '.join(parts)}"


def _vocabulary_rows(found: RecordStatistics) -> Iterator[tuple[str, str]]:
    tokenizer, total = found.tokenizer, sum(found.text_counts.values())
    if tokenizer is None:
        yield "vocabulary", f"{len(found.text_counts):,} different ids"
    else:
        unknown = found.text_counts.get(tokenizer.unk_id, 0)
        yield (
            "vocabulary",
            f"{found.used_pieces:.1%} of {tokenizer.vocab_size:,} pieces "
            f"occur; {unknown / max(1, total):.2%} of the text is unknown",
        )
    ranked = collections.Counter(found.label_counts).most_common(
        _FREQUENT_LABELS
    )
    total = sum(found.label_counts.values())
    if ranked:
        yield (
            "frequent labels",
            # Separated by spaces, as a comma may be a piece.
            "  ".join(
                f"{_name(piece_id, tokenizer)} {count / total:.1%}"
                for piece_id, count in ranked
            ),
        )


def _name(piece_id: int, tokenizer: Tokenizer | None) -> str:
    """Returns a piece, or its id if there is no tokenizer."""
    if tokenizer is None:
        return str(piece_id)
    return escaped(tokenizer.id_to_piece(piece_id))


def example_text(
    example: MaskedExample, tokenizer: Tokenizer | None, mask_id: int | None
) -> str:
    """Formats an example with marks around each prediction.

    `{word}` was replaced by `[MASK]`, `{word=}` was kept, `{word>other}` was
    replaced by another piece. Padding is left out. Without a tokenizer, ids are
    shown.
    """
    specials = set()
    if tokenizer is not None:
        specials = {tokenizer.cls_id, tokenizer.sep_id}
    parts: list[str] = []
    begins = True  # Whether a space precedes the token.
    for token, label, masked in zip(
        example.ids.tolist(),
        example.original.tolist(),
        example.is_masked.tolist(),
        strict=True,
    ):
        starts, text = _surface(label, tokenizer)
        if masked and not text:
            text = "▁"  # A masked space must be visible.
        if masked and token == mask_id:
            text = f"{{{text}}}"
        elif masked and token == label:
            text = f"{{{text}=}}"
        elif masked:
            text = f"{{{text}>{_surface(token, tokenizer)[1] or '▁'}}}"
        begins |= starts or label in specials
        parts.append(f" {text}" if begins else text)
        begins = label in specials
    return "".join(parts).strip()


def _surface(piece_id: int, tokenizer: Tokenizer | None) -> tuple[bool, str]:
    """Returns whether a space precedes a piece, and its text."""
    piece = _name(piece_id, tokenizer)
    if tokenizer is None:
        return True, piece
    if isinstance(tokenizer, AlbertWordPieceTokenizer):
        text = piece.removeprefix(CONTINUATION)
        return text == piece, text
    text = piece.removeprefix("▁")
    return text != piece, text.replace("▁", " ")


def examples_text(statistics: RecordStatistics) -> str:
    """Formats the examples of `statistics`, wrapped to 80 columns."""
    lines = ["{word} is [MASK], {word=} is kept, {word>other} is replaced"]
    for number, example in enumerate(statistics.examples, start=1):
        heading = f"example {number}"
        if example.label is not None and statistics.pair_task != "none":
            heading += f", {_LABELS[statistics.pair_task][example.label]}"
        text = example_text(example, statistics.tokenizer, statistics.mask_id)
        wrapped = textwrap.wrap(
            text,
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += ["", heading, *wrapped]
    return "\n".join(lines)


def plot_records(
    statistics: RecordStatistics, output: str | os.PathLike[str]
) -> None:
    """Draws lengths, spans, replacements, sentence order and piece frequencies.

    The suffix of `output` selects the format.
    """
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(
        2, 3, figsize=(13.2, 6.6), layout="constrained"
    )
    lengths, spans, replaced, predictions, order, ranks = axes.flat
    _draw_histogram(
        lengths,
        statistics.lengths,
        f"tokens per record ({statistics.padding_fraction:.1%} padding)",
    )
    _draw_histogram(
        predictions,
        statistics.predictions,
        f"predictions per record ({statistics.masking_rate:.1%} of the tokens)",
    )
    _draw_spans(spans, statistics)
    _draw_shares(
        replaced,
        statistics.replacement_shares,
        (MASK_SHARE, KEEP_SHARE, 1 - MASK_SHARE - KEEP_SHARE),
        "masked tokens are replaced by",
    )
    _draw_order(order, statistics)
    _draw_ranks(ranks, statistics)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
    figure.suptitle(f"{statistics.num_measured:,} records")
    save_figure(figure, output)


def _draw_histogram(axis, histogram: np.ndarray, label: str) -> None:
    """Draws a histogram of lengths with at most a hundred bars."""
    found = np.flatnonzero(histogram)
    first, last = int(found[0]), int(found[-1])
    width = -(-(last - first + 1) // 100)
    counts = histogram[first : last + 1]
    edges = np.arange(0, len(counts), width)
    axis.bar(
        first + edges,
        np.add.reduceat(counts, edges) / counts.sum(),
        width,
        align="edge" if width > 1 else "center",
        color=COLOURS[0],
    )
    axis.set_xlabel(label)
    axis.set_ylabel("share of records")


def _draw_spans(axis, statistics: RecordStatistics) -> None:
    histograms = {"tokens": statistics.span_tokens}
    if statistics.span_words is not None:
        histograms["words"] = statistics.span_words
    width = 0.8 / len(histograms)
    for number, (unit, histogram) in enumerate(histograms.items()):
        total = max(1, int(histogram.sum()))
        # The last bar is the sum of all longer spans.
        shares = histogram[1:_LONGEST_SPAN] / total
        shares = np.append(shares, histogram[_LONGEST_SPAN:].sum() / total)
        axis.bar(
            np.arange(1, len(shares) + 1) + (number - 0.5) * width,
            shares,
            width,
            label=f"{unit}, mean {_mean(histogram):.2f}",
            color=COLOURS[number],
        )
    axis.set_xlabel(f"masked span, the last bar: {len(shares)} and more")
    axis.set_ylabel("share of spans")
    axis.set_xticks(range(1, len(shares) + 1))
    axis.legend(fontsize=8)


def _draw_order(axis, statistics: RecordStatistics) -> None:
    if statistics.swapped_fraction is None:
        axis.set_xlabel("sentence order: no pairs")
        axis.set_xticks([])
        axis.set_yticks([])
        return
    swapped = statistics.swapped_fraction
    names = _LABELS[statistics.pair_task]
    shares = dict(zip(names, (1 - swapped, swapped), strict=True))
    _draw_shares(
        axis, shares, (0.5, 0.5), f"sentence order, {statistics.pair_task}"
    )


def _draw_shares(
    axis, shares: Mapping[str, float], expected: tuple[float, ...], label: str
) -> None:
    """Draws shares as bars, and expected shares as dotted lines."""
    bars = axis.bar(list(shares), list(shares.values()), 0.6, color=COLOURS[0])
    # Padded, so that labels are above the dotted lines.
    texts = [f"{share:.1%}" for share in shares.values()]
    axis.bar_label(bars, texts, padding=6)
    for bar, share in zip(bars, expected, strict=False):
        left = bar.get_x()
        axis.hlines(
            share,
            left - 0.1,
            left + bar.get_width() + 0.1,
            color="black",
            ls=":",
        )
    axis.set_ylim(0, 1)
    axis.set_xlabel(f"{label} (dotted: expected)")
    axis.set_ylabel("share")


def _draw_ranks(axis, statistics: RecordStatistics) -> None:
    """Draws the frequencies of pieces by rank."""
    counters: dict[str, Mapping[int, int]] = {
        "text": statistics.text_counts,
        "labels": statistics.label_counts,
    }
    for number, (name, counts) in enumerate(counters.items()):
        ranked = np.sort(list(counts.values()))[::-1]
        if len(ranked):
            axis.loglog(
                np.arange(1, len(ranked) + 1),
                ranked / ranked.sum(),
                color=COLOURS[number],
                label=f"{name}, {len(ranked):,} pieces",
            )
    axis.set_xlabel("rank of the piece")
    axis.set_ylabel("share of the tokens")
    axis.legend(fontsize=8)
