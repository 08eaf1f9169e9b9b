"""The tokenizer of a checkpoint, in the settings of the system it is from."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping

from albert_tf.errors import InputError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import (
    MODEL_FILE,
    SETTINGS_FILE,
    load_tokenizer,
    tokenizer_files,
)
from albert_tf.text.tokenizer_json import TOKENIZER_JSON, tokenizer_json

_WORDPIECE = "vocab.txt"


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """What turns a checkpoint's text into ids.

    Attributes:
      tokenizer: the tokenizer, or None.
      files: the files of a WordPiece vocabulary, which travels unread.
      problem: why the tokenizer that is there cannot be used, or "".
    """

    tokenizer: AlbertTokenizer | None = None
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    problem: str = ""

    def describe(self) -> str:
        """Says in a line what there is."""
        if self.tokenizer:
            return f"tokenizer: {self.tokenizer.vocab_size:,} pieces"
        if self.files:
            return f"tokenizer files: {', '.join(self.files)}"
        return f"tokenizer: none{self.problem and f' ({self.problem})'}"

    def huggingface_files(self, max_length: int) -> dict[str, bytes]:
        """Returns name -> content in Hugging Face's layout.

        Args:
          max_length: the longest row that the model takes.
        """
        if self.tokenizer is None:
            return dict(self.files)
        return {
            **tokenizer_files(self.tokenizer, max_length=max_length),
            TOKENIZER_JSON: tokenizer_json(self.tokenizer),
        }


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
        if system == "huggingface" and (folder / MODEL_FILE).exists():
            return Vocabulary(load_tokenizer(folder))
        models = sorted([*folder.glob("*.model"), *folder.glob("*.spm")])
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
    files = {}
    if vocabularies := sorted(folder.glob("vocab*.txt")):
        files[_WORDPIECE] = vocabularies[0].read_bytes()
        settings = folder / SETTINGS_FILE
        if settings.exists():
            files[SETTINGS_FILE] = settings.read_bytes()
    return Vocabulary(files=files)
