"""Checkpoints of every system: opening, matching, conversion.

`*_file`, `tf_checkpoint` and `archive` open files as named tensors. The formats
`google`, `huggingface`, `keras_hub`, `saved_model` and `run_folder` find the
files, config and tokenizer of a checkpoint. `matching` maps tensors to
variables by the table in `names`. `open_checkpoint` detects the format, and
`convert` writes another one.
"""
