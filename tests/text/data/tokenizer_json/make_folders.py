"""Makes spiece.model and, of it, the folders that transformers saves.

python tests/text/data/tokenizer_json/make_folders.py

Run it once with albert_tf's environment, which trains the model (and only
there: SentencePiece's releases train unlike each other), then in two with
transformers 4.57 and transformers 5.23; delete what is to be made again.
"""

import io
import pathlib
import shutil

FOLDER = pathlib.Path(__file__).parent
MODEL = FOLDER / "spiece.model"

TEXT = [
    "In 2000, the (small) house cost £9,000.",
    "In 1999, the large house cost 12,000 euros - well-known since 2000, too.",
    "The houses of 1999, of 2000, and of 2001, were houses like other houses.",
] * 20
# Rules instead of nmt_nfkc, whose charsmap has 240 kB: ﬁ and two blanks.
RULES = "FB01\t66 69\nA0\t20\n3000\t20\n"


def train() -> None:
    """Trains a vocabulary that has all kinds of pieces."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    rules = FOLDER / "rules.tsv"
    rules.write_text(RULES)
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line.lower() for line in TEXT),
        model_writer=trained,
        vocab_size=90,
        hard_vocab_limit=False,
        normalization_rule_tsv=str(rules),
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=["(", ")", '"', "-", ".", "£", "€", "..", "7,"],
        minloglevel=2,
    )
    rules.unlink()
    model = sentencepiece_model_pb2.ModelProto.FromString(trained.getvalue())
    # Paths of this machine.
    model.trainer_spec.ClearField("model_prefix")
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    # As large vocabularies have by themselves.
    for i, piece in enumerate(["▁2000,", "▁1999,", "1,", "00,"]):
        if piece not in {p.piece for p in model.pieces}:
            model.pieces.add(piece=piece, score=-3.3 - 0.1 * i)
    model.trainer_spec.vocab_size = len(model.pieces)
    MODEL.write_bytes(model.SerializeToString())


def save() -> None:
    """Saves it as this transformers does."""
    import transformers

    release = ".".join(transformers.__version__.split(".")[:2])
    source = FOLDER / "source"
    source.mkdir()
    shutil.copy(MODEL, source)
    (source / "config.json").write_text('{"model_type": "albert"}')
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    saved = FOLDER / f"transformers-{release}"
    tokenizer.save_pretrained(saved)
    shutil.rmtree(source)
    for path in saved.iterdir():
        if path.name not in ("tokenizer.json", "tokenizer_config.json"):
            path.unlink()


if MODEL.exists():
    save()
else:
    train()
