import shutil

import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretrained_models import vocabulary_path


@pytest.mark.parametrize(
    "pipeline", [albert_tf.FillMask, albert_tf.SentenceEmbedder]
)
def test_a_vocabulary_that_is_too_large_is_refused(
    checkpoint, tmp_path, pipeline
):
    shutil.copytree(checkpoint, tmp_path / "model")
    shutil.copy(vocabulary_path("albert_tiny_en"), tmp_path / "model")
    (tmp_path / "model/tokenizer_config.json").unlink()
    (tmp_path / "model/tokenizer.json").unlink(missing_ok=True)
    with pytest.raises(InputError, match="10000 pieces, but the model's vocab"):
        pipeline(tmp_path / "model")


def test_models_without_what_is_needed(checkpoint, tmp_path):
    model = AlbertPretrainer.from_pretrained(checkpoint, sop_head=False)
    model.save_pretrained(tmp_path / "mlm", model.tokenizer)
    albert_tf.FillMask(tmp_path / "mlm")
    with pytest.raises(InputError, match="has no sop_head; give a model that"):
        albert_tf.SentenceOrder(tmp_path / "mlm")
    classifier = AlbertClassifier(model.config, num_labels=2)
    classifier.save_pretrained(tmp_path / "tuned", model.tokenizer)
    with pytest.raises(InputError, match="has no mlm_head; give a model that"):
        albert_tf.FillMask(tmp_path / "tuned")
    encoder = AlbertEncoder(model.config, pooler=False)
    encoder.save_pretrained(tmp_path / "no_pooler", model.tokenizer)
    albert_tf.SentenceEmbedder(tmp_path / "no_pooler")
    with pytest.raises(InputError, match="has no pooler; use another pooling"):
        albert_tf.SentenceEmbedder(tmp_path / "no_pooler", pooling="pooler")
    AlbertPretrainer(model.config).save_pretrained(tmp_path / "bare")
    for pipeline in (
        albert_tf.FillMask,
        albert_tf.SentenceOrder,
        albert_tf.SentenceEmbedder,
    ):
        with pytest.raises(InputError, match="bare has no tokenizer"):
            pipeline(tmp_path / "bare")
    with pytest.raises(InputError, match="pooling='max' must be"):
        albert_tf.SentenceEmbedder(checkpoint, pooling="max")
    with pytest.raises(InputError, match="batch_size='a' must be an integer"):
        albert_tf.FillMask(checkpoint, batch_size="a")
    with pytest.raises(InputError, match="batch_size=0 must be positive"):
        albert_tf.FillMask(checkpoint, batch_size=0)


@pytest.mark.parametrize("path", [None, 3, b"model", ["model"]])
def test_models_that_are_no_path(path):
    loaders = (
        albert_tf.FillMask,
        albert_tf.SentenceOrder,
        albert_tf.SentenceEmbedder,
        AlbertEncoder.from_pretrained,
        albert_tf.load_tokenizer,
        albert_tf.AlbertTokenizer.from_file,
    )
    for load in loaders:
        with pytest.raises(InputError, match="path=.* must be a string or a p"):
            load(path)
