"""Flags of the commands that read text."""

from __future__ import annotations

from absl import flags

INPUT = flags.DEFINE_string(
    "input",
    None,
    "Text files: glob patterns separated by commas; .gz is read directly.",
    required=True,
)
TEXT_FORMAT = flags.DEFINE_enum(
    "text_format",
    "lines",
    ["lines", "prose", "wikiextractor"],
    "lines: a sentence a line, a blank line ends a document. prose: blank "
    "lines between paragraphs, two between documents. wikiextractor: its "
    "<doc> files.",
)
LANGUAGE = flags.DEFINE_string(
    "language",
    "en",
    "ISO 639 code of the language, for splitting prose into sentences.",
)
DO_LOWER_CASE = flags.DEFINE_boolean(
    "do_lower_case", True, "Lower-case all text."
)
STRIP_ACCENTS = flags.DEFINE_boolean(
    "strip_accents", True, "Drop accents (combining marks after NFKD)."
)
