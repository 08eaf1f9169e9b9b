"""Public names of the variables and layers of a model."""

from __future__ import annotations

from typing import Any

from albert_tf.errors import InputError


def public_path(model, part) -> str:
    """Returns the public name of a variable or a built layer of a model.

    It depends neither on the names of the model and its encoder nor on the
    name scope that they were created in, such as that of a layer's `build`.
    """
    encoder = getattr(model, "encoder", model)
    scopes: dict[str, str] = {}
    if name := getattr(encoder, "SCOPE", None):
        # Shared embeddings have the scope of another encoder.
        scopes[encoder.embeddings.path] = f"{name}/embeddings"
        scopes[encoder.path] = name
    scopes[model.scope] = ""
    for scope, public in scopes.items():
        if f"{part.path}/".startswith(f"{scope}/" if scope else ""):
            rest = part.path.removeprefix(scope).removeprefix("/")
            return "/".join(x for x in (public, rest) if x)
    return part.path


def named_weights(model) -> dict[str, Any]:
    """Returns the public name of each variable of a model -> the variable.

    Raises:
      InputError: if two of them have the same name.
    """
    named: dict[str, Any] = {}
    for variable in model.weights:
        path = public_path(model, variable)
        if named.setdefault(path, variable) is not variable:
            raise InputError(
                f"{type(model).__name__} has two variables {path}; give its "
                "encoders different names (name=...)"
            )
    return named
