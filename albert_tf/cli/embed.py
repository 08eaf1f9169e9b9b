"""Compute vectors of texts, or compare two texts, with a pretrained model.

Reads --text, --input or lines of standard input. Writes a vector for each line,
blank ones included: as a NumPy array `[texts, hidden]` in float32 if --output
ends with .npy, as a table with a header if it ends with .csv or .tsv, otherwise
as one JSON list per line. With --text and --pair, prints the cosine similarity
of the two.

Examples:
  albert embed --model=run --input=texts.txt --output=vectors.npy
  albert embed --model=run --text="A good story." --pair="A tale well told."
"""

from __future__ import annotations

import dataclasses
import io
from typing import Literal

import numpy as np

from albert_tf.cli.flags import CommandFlags, require_flags
from albert_tf.cli.text_lines import TextLinesFlags, texts_of, write_results
from albert_tf.errors import InputError
from albert_tf.files import new_file
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import setting
from albert_tf.training.config import Precision


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbedFlags(TextLinesFlags):
    """Flags for the embedding of texts."""

    pair: str | None = setting(None, "A text to compare with --text.")
    pooling: Literal["mean", "weighted_mean", "cls", "pooler"] | None = setting(
        None,
        "mean: mean of the last layer over all tokens. weighted_mean: with "
        "more weight on rare tokens. cls: first token of the last layer. "
        "pooler: the pooled output. Default: that of a folder of "
        "sentence-transformers, otherwise mean.",
    )
    normalize: bool = setting(True, "Scale vectors to length 1.")
    precision: Precision = setting(
        "float32",
        "Precision of the computation, which is float32 with --runtime=onnx. "
        "Vectors are float32.",
    )


CONFIGS = (EmbedFlags,)


def main(flags: CommandFlags) -> None:
    """Writes the vectors of texts, or the cosine similarity of two."""
    flags.choose("text", "input")
    given = flags.build(EmbedFlags)
    require_flags({"pair": ["text"]}, given)
    array = None
    if given.format is None and (given.output or "").lower().endswith(".npy"):
        array = given.output
    if given.pair is not None and array is not None:
        raise InputError(
            f"--output={array}: the similarity of --pair is written as "
            "text, not as an array; use another name than .npy"
        )
    texts = texts_of(given, array=array is not None)
    import_tensorflow()
    from albert_tf.pipelines.sentence_embedder import SentenceEmbedder

    embed = SentenceEmbedder(
        given.model,
        pooling=given.pooling,
        normalize=given.normalize,
        batch_size=given.eval_batch_size,
        dtype=given.precision,
        runtime=given.runtime,
    )
    if given.text is not None and given.pair is not None:
        cosine = round(float(embed.similarity(given.text, given.pair)), 4)
        write_results([(cosine, [{"similarity": cosine}])], given, "jsonl")
    elif array is not None:
        # Opened first: what cannot be written need not be computed.
        with new_file(array, binary=True) as file:
            content = io.BytesIO()  # `np.save` cannot write to a pipe.
            np.save(content, embed(texts))
            file.write(content.getvalue())
    else:
        vectors = (
            [round(x, 6) for x in vector.tolist()]
            for chunk in embed.chunks(texts)
            for vector in chunk
        )
        write_results(
            (
                (vector, [{str(i): x for i, x in enumerate(vector)}])
                for vector in vectors
            ),
            given,
            "jsonl",
        )
