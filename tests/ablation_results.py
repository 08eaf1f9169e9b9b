"""Results of studies from given scores, without training."""

from albert_tf.ablation.results import RowResult, StudyResult
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import ABOVE_PLATEAU

SCORES = {
    "mlm_accuracy": 0.5,
    ABOVE_PLATEAU: 2.5,
    "sop_accuracy": 0.5,
}


def make_result(study, scores):
    """The result of a study from the scores of the seeds of each row.

    Scores that are left out are those of a row that has left the plateau. The
    runs of each row have names of their own.
    """
    rows = [
        RowResult(
            name=row.name,
            runs=tuple(
                f"{study.name} {row.name} {seed}" for seed in range(len(seeds))
            ),
            parameters=1000,
            steps=10,
            flops=1e12,
            scores=tuple(SCORES | seed for seed in seeds),
        )
        for row, seeds in zip(study.rows, scores, strict=True)
    ]
    return StudyResult(study, tuple(rows))


def losses(*values):
    """Scores of runs with these MLM losses."""
    return [{"mlm_loss": value} for value in values]


def dropout(with_dropout, without):
    """The result of the study of dropout from losses."""
    scores = [losses(*with_dropout), losses(*without)]
    return make_result(STUDIES["dropout"], scores)
