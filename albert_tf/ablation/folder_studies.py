"""The studies of a folder, whose definitions are recorded in its `run.json`.

All of them are in its report, and their claims are one family. A definition is
recorded whole, as rows can be left out and studies can be the user's own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from albert_tf.ablation.results import StudyResult
from albert_tf.ablation.runner import Runner
from albert_tf.ablation.study import Study, StudyClaim, StudyRow
from albert_tf.errors import InputError
from albert_tf.schema import check_type
from albert_tf.training.run_folder import FILE, RunFolder, read_settings

# The setting that holds the definitions, by name. It may change.
KEY = "studies"

_logger = logging.getLogger(__name__)


def add_studies(record: RunFolder, studies: Iterable[Study]) -> None:
    """Adds studies to those of a folder, which `record.claim` then records.

    A study keeps its place in the report when it is run again.
    """
    known = _recorded(record.path) if record.resumes else {}
    record.settings[KEY] = known | {x.name: study_json(x) for x in studies}


def results_of(
    record: RunFolder, runner: Runner, studies: Iterable[Study]
) -> tuple[StudyResult, ...]:
    """Returns the results of a folder's studies, in the order of the record.

    Earlier studies that are not finished, or do not fit the folder any more,
    are left out with a warning.

    Args:
      record: the folder, to which the studies were added.
      runner: trains and scores the runs of the folder.
      studies: the studies that were run just now.
    """
    new = {study.name: study for study in studies}
    results: list[StudyResult] = []
    for name, values in record.settings[KEY].items():
        if name in new:
            results.append(runner.result(new[name]))
            continue
        try:
            study = study_from_json(name, values)
            if missing := runner.num_missing(study):
                raise InputError(f"{missing} of its runs are not finished")
            results.append(runner.result(study))
        except InputError as error:
            _logger.warning(
                "study %s is left out of the report: %s; run it again to add "
                "it",
                name,
                error,
            )
    return tuple(results)


def study_json(study: Study) -> dict[str, Any]:
    """Returns the definition of a study as JSON values."""
    return json.loads(json.dumps(study, default=_plain))


def _plain(value: Any) -> Any:
    """Converts what json does not know: definitions, mappings and NumPy."""
    if isinstance(value, Study | StudyRow | StudyClaim):
        return vars(value)
    return dict(value) if isinstance(value, Mapping) else value.item()


def study_from_json(name: str, values: Any) -> Study:
    """Creates a study from its recorded definition.

    Raises:
      InputError: if this is not the definition of a study.
    """
    check_type(values, Mapping[str, Any], FILE)
    fields: dict[str, Any] = {**values, "name": name}
    check_type(fields, Study, FILE)
    rows: list[dict[str, Any]] = [
        {**row, "grown_from": tuple(row.get("grown_from", ()))}
        for row in fields["rows"]
    ]
    claims: list[dict[str, Any]] = fields.get("claims", [])
    try:
        fields["rows"] = tuple(StudyRow(**row) for row in rows)
        fields["claims"] = tuple(StudyClaim(**claim) for claim in claims)
        return Study(**fields)
    except TypeError as error:  # an unknown field
        raise InputError(f"recorded by another version: {error}") from None


def _recorded(folder: str) -> dict[str, Any]:
    """Returns the definitions of the studies that a folder has."""
    studies = read_settings(folder).get(KEY, {})
    check_type(studies, Mapping[str, Any], FILE)
    return studies
