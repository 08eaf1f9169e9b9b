"""Presets of KerasHub: keras-hub 0.32, Keras 3.15, TensorFlow 2.21."""

import tempfile

import keras_hub
import numpy as np
from example import (
    SIZES,
    VOCABULARY,
    archive,
    fresh_folder,
    inputs,
    random_weight,
    write_outputs,
)

models = keras_hub.models
rng = np.random.default_rng(2)


def randomize(weights):
    for weight in weights:
        weight.assign(random_weight(rng, weight.path, weight.shape))


def save_archive(model, name):
    """h5 files of small tensors are mostly padding."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_to_preset(folder)
        archive(folder, name)


backbone = models.AlbertBackbone(
    vocabulary_size=SIZES["vocab_size"],
    num_layers=SIZES["num_hidden_layers"],
    num_heads=SIZES["num_attention_heads"],
    embedding_dim=SIZES["embedding_size"],
    hidden_dim=SIZES["hidden_size"],
    intermediate_dim=SIZES["intermediate_size"],
    num_groups=SIZES["num_hidden_groups"],
    num_inner_repetitions=SIZES["inner_group_num"],
    max_sequence_length=SIZES["max_position_embeddings"],
    num_segments=SIZES["type_vocab_size"],
    dropout=0.1,
)
randomize(backbone.weights)
given = inputs()
features = {
    "token_ids": given["input_word_ids"],
    "padding_mask": given["input_mask"],
    "segment_ids": given["input_type_ids"],
}
outputs = backbone(features)
save_archive(backbone, "keras_hub_backbone")
tokenizer = models.AlbertTokenizer(proto=str(VOCABULARY))
classifier = models.AlbertTextClassifier(
    backbone=backbone,
    num_classes=3,
    dropout=0.2,
    preprocessor=models.AlbertTextClassifierPreprocessor(tokenizer, 16),
)
randomize(classifier.get_layer("logits").weights)
classifier.save_to_preset(str(fresh_folder("keras_hub_classifier")))
masked_lm = models.AlbertMaskedLM(backbone=backbone, preprocessor=None)
of_backbone = {id(weight) for weight in backbone.weights}
randomize(w for w in masked_lm.weights if id(w) not in of_backbone)
save_archive(masked_lm, "keras_hub_masked_lm")
positions = given["masked_lm_positions"]
write_outputs(
    "keras_hub",
    {
        "sequence_output": outputs["sequence_output"],
        "pooled_output": outputs["pooled_output"],
        "logits": classifier(features),
        "mlm_logits": masked_lm({**features, "mask_positions": positions}),
    },
)
