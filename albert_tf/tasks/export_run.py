"""SavedModels of a pretraining run."""

from __future__ import annotations

import os

from albert_tf.export.encoder import export_encoder
from albert_tf.export.preprocessor import export_preprocessor
from albert_tf.tasks.pretrain import load_pretrainer
from albert_tf.text.tokenizer_files import MODEL_FILE, load_tokenizer


def export_run(
    run_dir: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    kind: str = "encoder",
    seq_length: int = 128,
    packed: bool = False,
    overwrite: bool = False,
) -> None:
    """Writes the encoder or the preprocessor of a run as a SavedModel.

    Raises:
      InputError: the folder holds no run with a tokenizer, or `output` is
        taken.
    """
    tokenizer = load_tokenizer(run_dir)
    model_file = os.path.join(os.fspath(run_dir), MODEL_FILE)
    if kind == "encoder":
        export_encoder(
            load_pretrainer(run_dir),
            output,
            tokenizer_model=model_file,
            do_lower_case=tokenizer.normalizer.do_lower_case,
            packed=packed,
            overwrite=overwrite,
        )
    else:
        export_preprocessor(
            model_file,
            output,
            seq_length=seq_length,
            do_lower_case=tokenizer.normalizer.do_lower_case,
            strip_accents=tokenizer.normalizer.strip_accents,
            digit_comma=tokenizer.digit_comma,
            overwrite=overwrite,
        )
