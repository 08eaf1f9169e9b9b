"""The tokenizer of a checkpoint, in the settings of the system it is from."""

from __future__ import annotations

import dataclasses
import os
import pathlib

from albert_tf.errors import InputError
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import (
    MODEL_FILE,
    WORDPIECE_FILE,
    load_tokenizer,
    tokenizer_files,
)
from albert_tf.text.tokenizer_json import TOKENIZER_JSON, tokenizer_json
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """What turns a checkpoint's text into ids.

    Attributes:
      tokenizer: the tokenizer, or None.
      problem: why the tokenizer that is there cannot be used, or "".
    """

    tokenizer: Tokenizer | None = None
    problem: str = ""

    def describe(self) -> str:
        """Says in a line what there is."""
        if self.tokenizer:
            return f"tokenizer: {self.tokenizer.vocab_size:,} pieces"
        return f"tokenizer: none{self.problem and f' ({self.problem})'}"

    def huggingface_files(self, max_length: int) -> dict[str, bytes]:
        """Returns name -> content in Hugging Face's layout.

        Args:
          max_length: the longest row that the model takes.
        """
        if self.tokenizer is None:
            return {}
        files = tokenizer_files(self.tokenizer, max_length=max_length)
        # From a vocab.txt, transformers 5 makes the right one itself.
        if not isinstance(self.tokenizer, WordPieceTokenizer):
            files[TOKENIZER_JSON] = tokenizer_json(self.tokenizer)
        return files


def folder_vocabulary(
    folder: str | os.PathLike[str], system: str, do_lower_case: bool = True
) -> Vocabulary:
    """Finds the tokenizer in a folder.

    Args:
      folder: of the checkpoint.
      system: whose it is, which decides on the settings: "huggingface" (its
        files say) or "google" (what the original does).
      do_lower_case: whether Google's lower-cases; no file of its says that.
    """
    folder = pathlib.Path(folder)
    try:
        if system == "huggingface" and _has_tokenizer(folder):
            return Vocabulary(load_tokenizer(folder))
        models = (
            sorted([*folder.glob("*.model"), *folder.glob("*.spm")])
            or sorted(folder.glob(WORDPIECE_FILE))
            or sorted(folder.glob("vocab*.txt"))  # vocab_chinese.txt
        )
        if len(models) == 1:
            tokenizer = AlbertTokenizer.from_file(
                models[0], do_lower_case=do_lower_case
            )
            return Vocabulary(tokenizer)
    # The weights are of use without it; who needs it is told.
    except InputError as error:
        return Vocabulary(problem=str(error))
    if models:
        names = ", ".join(path.name for path in models)
        return Vocabulary(problem=f"{folder} holds several: {names}")
    return Vocabulary()


def _has_tokenizer(folder: pathlib.Path) -> bool:
    """Returns whether `load_tokenizer` is for this folder's vocabulary."""
    if any((folder / name).exists() for name in (MODEL_FILE, WORDPIECE_FILE)):
        return True
    # Beside a vocab.txt, it says in another way what that says.
    return (folder / TOKENIZER_JSON).exists() and not any(
        folder.glob("vocab*.txt")
    )
