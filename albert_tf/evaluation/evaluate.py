"""Evaluation of a pretraining run, or of fine-tuned models."""

from __future__ import annotations

from albert_tf.evaluation.config import EvaluateConfig
from albert_tf.files import split_patterns
from albert_tf.finetuning.data import Source, find_split, labelled_examples
from albert_tf.finetuning.model_folder import open_model_folders
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.scoring import (
    check_scored,
    score_predictions,
    scored_by,
)
from albert_tf.objectives.registry import load_objective_module
from albert_tf.pretraining.evaluate import NEWEST, evaluate_pretraining
from albert_tf.settings import takes


@takes(EvaluateConfig)
def evaluate(config: EvaluateConfig) -> dict[str, float]:
    """Evaluates a checkpoint of a pretraining run, or a fine-tuned model.

    Args:
      config: the model and the data.

    Returns:
      Of a fine-tuned model or an ensemble, the scores by metric, the key metric
      first; otherwise see `evaluate_pretraining`.

    Raises:
      InputError: if the model or the data cannot be read, or do not fit
        together.
    """
    scores, _ = evaluate_with_gain(config)
    return scores


def evaluate_with_gain(config: EvaluateConfig) -> tuple[dict[str, float], str]:
    """Returns the scores, and the gain of an ensemble; see `evaluate`."""
    if config.run is not None:
        assert config.input is not None  # The config has checked it.
        if config.objective_module is not None:
            load_objective_module(config.objective_module)
        scores = evaluate_pretraining(
            config.run,
            config.input,
            checkpoint=config.checkpoint or NEWEST,
            split=config.split or "heldout",
            batch_size=config.eval_batch_size,
            max_steps=config.max_eval_steps,
        )
        return scores, ""
    assert config.model is not None
    config.load_task_module()
    models = split_patterns(config.model)
    folders = open_model_folders(models)
    task_type = make_task_type(next(iter(folders.values())).task_config)
    sources: list[Source] = [*split_patterns(config.input or ())] or [
        find_split(
            task_type,
            config.split or "dev",
            source=config.source,
            data=config.data,
        )
    ]
    examples = labelled_examples(task_type, sources, config.on_bad_example)
    metrics = check_scored(task_type, examples, config.metrics)
    predictor = Predictor(
        models, batch_size=config.eval_batch_size, progress=True
    )
    chunks = [predictor.predict_examples(examples)]
    return score_predictions(scored_by(predictor.task_type, metrics), chunks)
