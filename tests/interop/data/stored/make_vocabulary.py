"""Trains the vocabulary of all the checkpoints, with sentencepiece 0.2.1.

SentencePiece's table of NFKC, a quarter of a megabyte, is taken out: what
albert_tf gives SentencePiece is normalized already.
"""

import tempfile

from example import VOCABULARY
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

with tempfile.TemporaryDirectory() as folder:
    path = train_vocabulary(
        [
            "the cat sat on the mat, and the hat sat on the cat",
            "a dog sees the cat; the cat sees a rat in the house",
            "cats eat, dogs sit, rats run, and nobody shouts at the others",
        ]
        * 20,
        f"{folder}/spiece",
        VocabularyConfig(vocab_size=40, num_threads=1),
    )
    model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
model.normalizer_spec.precompiled_charsmap = b""
model.normalizer_spec.name = "identity"
model.trainer_spec.ClearField("model_prefix")
VOCABULARY.write_bytes(model.SerializeToString())
