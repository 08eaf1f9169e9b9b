"""WordPiece: the vocabulary file, and the pieces of a word."""

from collections.abc import Sequence

from albert_tf.errors import InputError

CONTINUATION = "##"  # begins a piece that does not begin a word.
SPECIAL_PIECES = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")
_CACHED_WORDS = 1 << 16


def is_wordpiece(content: bytes) -> bool:
    """Whether a file is a `vocab.txt`: it lists special pieces of BERT."""
    try:
        return not set(_lines(content)).isdisjoint(SPECIAL_PIECES)
    except UnicodeDecodeError:
        return False


def read_pieces(content: bytes, name: str) -> list[str]:
    """Returns the pieces of a `vocab.txt`, in the order of their ids.

    Args:
      content: a piece a line, in UTF-8.
      name: what error messages call it, such as its path.

    Raises:
      InputError: it is no such file, or lacks one of BERT's special pieces.
    """
    try:
        pieces = _lines(content)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}: not a WordPiece vocabulary (vocab.txt): byte "
            f"{error.start} is no UTF-8."
        ) from None
    missing = sorted(set(SPECIAL_PIECES) - set(pieces))
    if missing:
        raise InputError(
            f"{name}: the WordPiece vocabulary has no line "
            f"{' '.join(missing)}; ALBERT needs {' '.join(SPECIAL_PIECES)}: "
            "give the vocab.txt of the checkpoint."
        )
    return pieces


class WordPieces:
    """Finds the pieces of words: always the longest that fits.

    The word is unknown as a whole if there is a place where none fits, or if
    it is too long.
    """

    def __init__(
        self, pieces: Sequence[str], unk_id: int, max_characters_per_word: int
    ):
        """Keeps the vocabulary.

        Args:
          pieces: in the order of their ids; of equal ones the last counts.
          unk_id: what stands for an unknown word.
          max_characters_per_word: longer words are unknown.
        """
        self._ids = {piece: i for i, piece in enumerate(pieces)}
        self._longest = max(map(len, pieces))
        self._unknown = (unk_id,)
        self._max_characters = max_characters_per_word
        self._cache: dict[str, tuple[int, ...]] = {}

    def __call__(self, word: str) -> tuple[int, ...]:
        """Returns the ids of a word's pieces."""
        ids = self._cache.get(word)
        if ids is None:
            ids = self._find(word)
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = ids
        return ids

    def _find(self, word: str) -> tuple[int, ...]:
        if len(word) > self._max_characters:
            return self._unknown
        ids: list[int] = []
        start, mark = 0, ""
        while start < len(word):
            # `_longest` may count the mark; a vain look-up does no harm.
            for end in range(min(len(word), start + self._longest), start, -1):
                piece_id = self._ids.get(mark + word[start:end])
                if piece_id is not None:
                    break
            else:
                return self._unknown
            ids.append(piece_id)
            start, mark = end, CONTINUATION
        return tuple(ids)


def _lines(content: bytes) -> list[str]:
    text = content.decode("utf-8-sig")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]
