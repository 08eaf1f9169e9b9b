"""JSON values with a part of them wrong, for tests of what reads them."""

import copy
import itertools


def variants(value, wrong, most=1000):
    """Yields copies of a value with one part of it wrong, or removed.

    Args:
      value: a JSON value.
      wrong: values that take the place of each part.
      most: of each list or object, so many parts are changed.
    """
    yield from wrong
    if not isinstance(value, (dict, list)):
        return
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in itertools.islice(keys, most):
        for changed in variants(value[key], wrong, most):
            other = copy.copy(value)
            other[key] = changed
            yield other
        other = copy.copy(value)
        del other[key]
        yield other
