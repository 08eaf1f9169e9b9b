import pytest

from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import (
    AlbertClassifier,
    AlbertPairClassifier,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.interop.names import (
    HEADS,
    component_of,
    tensors_of,
)
from albert_tf.models.pretrainer import AlbertPretrainer

CONFIGS = {
    "groups": {},
    "equal sizes": {"embedding_size": 8},
    "equal sizes, projected": {
        "embedding_size": 8,
        "project_equal_sizes": True,
    },
    "attention shared": {"sharing": "attention"},
    "FFN shared": {"sharing": "ffn"},
    "nothing shared": {"sharing": "none", "num_hidden_groups": 1},
}
MODELS = {
    "mlm_head sop_head": lambda config: AlbertPretrainer(config),
    "classifier_head": lambda config: AlbertClassifier(config, 3),
    "choice_head": lambda config: AlbertMultipleChoice(config),
    "pair_head": lambda config: AlbertPairClassifier(config, 3),
    "token_head": lambda config: AlbertTokenClassifier(config, 3),
    "span_head": lambda config: AlbertQuestionAnswering(config, "v1"),
    "joint_span_head": lambda config: AlbertQuestionAnswering(config, "joint"),
}


PRETRAINER = "mlm_head sop_head"


@pytest.mark.parametrize(
    ("name", "heads"),
    [(name, PRETRAINER) for name in CONFIGS] + [("groups", x) for x in MODELS],
)
def test_tensors_are_the_variables_of_the_model(config, name, heads):
    config = config.replace(**CONFIGS[name])
    model = MODELS[heads](config)
    components = {component_of(variable.path) for variable in model.weights}
    assert components & set(HEADS) == set(heads.split())
    rows = {t.path: t.shape for t in tensors_of(config, components, 3)}
    assert rows == {v.path: tuple(v.shape) for v in model.weights}
