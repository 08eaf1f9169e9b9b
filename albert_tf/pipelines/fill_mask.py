"""Prediction of masked words."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, shown
from albert_tf.finetuning.features import Features, batched
from albert_tf.finetuning.predictor import CHUNK, BatchPredictor
from albert_tf.models.base import MASKED_LM_POSITIONS
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pipelines.pipeline import Pipeline, with_positions
from albert_tf.pretrained_models import DEFAULT
from albert_tf.runtimes.config import Runtime
from albert_tf.schema import check_argument
from albert_tf.text.arguments import text_list


class FillMask(Pipeline):
    """Predicts masked words with a pretrained MLM head.

    For example:

        fill = albert_tf.FillMask()
        fill("The capital of France is [MASK].")[0]["token_str"]

    Args:
      model: a checkpoint; see `AlbertPretrainer.from_pretrained`. The default
        is part of the package.
      batch_size: batch size.
      runtime: what computes the model; see `Predictor`.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks an MLM head or a
        tokenizer.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT,
        *,
        batch_size: int = 32,
        runtime: Runtime = "keras",
    ):
        super().__init__(batch_size, runtime)
        self._open(AlbertPretrainer, model, "mlm_head", sop_head=False)
        self._tokenizer = self._tokenizer.with_settings(
            match_special_tokens=True
        )
        # The largest `top_k` so far, and what computes as many tokens.
        self._top: tuple[int, BatchPredictor | None] = (0, None)

    def __call__(
        self, texts: str | Iterable[str], *, top_k: int = 5
    ) -> list[Any]:
        """Returns the most probable tokens for each `[MASK]`.

        Args:
          texts: one text, or several, each with at least one `[MASK]`.
          top_k: number of tokens to return for each mask.

        Returns:
          As Hugging Face's pipeline. For one text with one mask: a list of
          dicts, most probable first, with `score` (the probability), `token`
          (the id), `token_str` (the piece without its word mark) and `sequence`
          (the text that the model reads, without what exceeds its length, with
          the token filled in). For a text with several masks:
          such a list per mask, whose sequences keep the other masks. For
          several texts: a list of these results.

        Raises:
          InputError: if a text has no `[MASK]` or one beyond the model's
            length, or `top_k` is not in [1, vocabulary size].
        """
        check_argument(top_k, int, "top_k")
        vocab_size = self._tokenizer.vocab_size
        if not 1 <= top_k <= vocab_size:
            raise InputError(f"top_k={top_k} must be in [1, {vocab_size}]")
        most, predict = self._top
        if predict is None or top_k > most:
            forward = functools.partial(
                _top_tokens, top_k=top_k, vocab_size=vocab_size
            )
            predict = self._predictor(forward)
            self._top = top_k, predict
        results = []
        for chunk in batched(text_list(texts, "texts"), CHUNK):
            features = self._with_masks(chunk)
            for example, outputs in enumerate(predict(features)):
                start, end = features.starts[example : example + 2]
                ids = features.ids[start:end].tolist()
                positions = features.columns[MASKED_LM_POSITIONS][example]
                fills = [
                    self._fills(ids, position, scores[:top_k], tokens[:top_k])
                    for position, scores, tokens in zip(
                        positions[positions > 0],  # 0 is padding.
                        outputs["scores"],
                        outputs["tokens"],
                        strict=False,  # Those of padding follow.
                    )
                ]
                results.append(fills[0] if len(fills) == 1 else fills)
        return results[0] if isinstance(texts, str) else results

    def count_masks(self, text: str) -> int:
        """Returns the number of `[MASK]` in a text.

        Raises:
          InputError: if it has none, or one beyond the model's length.
        """
        return self._with_masks([text]).columns[MASKED_LM_POSITIONS].size

    def _with_masks(self, texts: Sequence[str]) -> Features:
        features = self._features(texts)
        masks = np.split(
            features.ids == self._tokenizer.mask_id, features.starts[1:-1]
        )
        positions = [np.flatnonzero(mask) for mask in masks]
        for text, found in zip(texts, positions, strict=True):
            parts = self._tokenizer.special_tokens.split(text)
            total = sum(part.id == self._tokenizer.mask_id for part in parts)
            if not total:
                raise InputError(
                    f"the text {shown(text)} has no [MASK]; write [MASK] for "
                    "the word to fill in"
                )
            if total > len(found):
                raise InputError(
                    f"the text {shown(text)} has {total} [MASK], of which "
                    f"{total - len(found)} are not within the first "
                    f"{self._max_length} tokens, the model's length; shorten "
                    "or divide the text"
                )
        columns = np.zeros((len(texts), max(map(len, positions))), np.int64)
        for row, found in zip(columns, positions, strict=True):
            row[: len(found)] = found
        return with_positions(features, columns)

    def _fills(
        self,
        ids: list[int],
        position: int,
        scores: np.ndarray,
        tokens: np.ndarray,
    ) -> list[dict[str, Any]]:
        fills = []
        for score, token in zip(scores.tolist(), tokens.tolist(), strict=True):
            filled = [*ids[1:position], token, *ids[position + 1 : -1]]
            fills.append(
                {
                    "score": score,
                    "token": token,
                    "token_str": self._tokenizer.decode([token]),
                    "sequence": self._decode(filled),
                }
            )
        return fills

    def _decode(self, ids: list[int]) -> str:
        """Decodes ids to text, and keeps masks."""
        mask_id, parts = self._tokenizer.mask_id, [[]]
        for token in ids:
            if token == mask_id:
                parts.append([])
            else:
                parts[-1].append(token)
        return " [MASK] ".join(map(self._tokenizer.decode, parts)).strip()


def _top_tokens(
    model: AlbertPretrainer,
    batch: Mapping[str, tf.Tensor],
    *,
    top_k: int,
    vocab_size: int,
) -> dict[str, tf.Tensor]:
    # The model may have more embeddings than there are pieces.
    logits = model(batch)["mlm_logits"][..., :vocab_size]
    scores, tokens = tf.math.top_k(tf.nn.softmax(logits), top_k)
    return {"scores": scores, "tokens": tokens}
