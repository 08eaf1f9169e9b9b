"""Checks of the weights of a SavedModel."""

from __future__ import annotations

import hashlib

import numpy as np

from .exported import Exported
from .findings import expect, expect_same


def variables_of(endpoint) -> dict:
    """Returns name -> variable of a loaded endpoint."""
    return {v.name.removesuffix(":0"): v for v in endpoint.variables}


def weights_sha256(exported: Exported) -> str:
    """The weights are those that `export.json` names, bit by bit."""
    weights = {}
    for endpoint in (exported.root, *sub_objects(exported.root)):
        weights |= variables_of(endpoint)
    wanted = exported.manifest["weights"]
    expect_same(sorted(weights), sorted(wanted), "names")
    digest = hashlib.sha256()
    for name in sorted(weights):
        value = np.ascontiguousarray(weights[name].numpy())
        header = f"{name} {value.dtype.name} {list(value.shape)}\n"
        digest.update(header.encode("utf-8"))
        digest.update(value.astype(value.dtype.newbyteorder("<")).data)
    found = digest.hexdigest()
    expect_same(found, exported.manifest["weights_sha256"], "sha256")
    count = sum(variable.shape.num_elements() for variable in weights.values())
    return f"{count:,} parameters, {found[:12]}..."


def sub_objects(root) -> list:
    """Returns the heads of an encoder."""
    return [getattr(root, x) for x in ("mlm", "sop") if hasattr(root, x)]


def trainable(exported: Exported) -> str:
    """All variables can be trained, and losses of regularization be had."""
    for endpoint in (exported.root, *sub_objects(exported.root)):
        names = sorted(variables_of(endpoint))
        found = {
            v.name.removesuffix(":0") for v in endpoint.trainable_variables
        }
        expect_same(sorted(found), names, "trainable_variables")
        for variable in endpoint.trainable_variables:
            expect(variable.trainable, f"{variable.name} is not trainable")
        for loss in endpoint.regularization_losses:
            expect_same(loss().shape.rank, 0, "rank of a regularization loss")
    return f"{len(exported.root.variables)} variables"
