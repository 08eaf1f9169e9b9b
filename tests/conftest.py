import contextlib
import gc
import os
import pathlib
import sys

import pytest

# Before TensorFlow is imported anywhere: its start-up chatter hides failures.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Before TensorFlow, too: Triton, which comes with PyTorch's CUDA build, crashes
# the process when it is loaded after it.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401

_REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared():
    """Returns `shared(*parts)`: a path of the shared data, or skips."""
    root = pathlib.Path(
        os.environ.get("ALBERT_TF_SHARED", _REPOSITORY.parent / "shared")
    )

    def find(*parts: str) -> pathlib.Path:
        path = root.joinpath(*parts)
        if not path.exists():
            pytest.skip(f"shared data absent: {'/'.join(parts)}")
        return path

    return find


@pytest.fixture(autouse=True, scope="module")
def _free_memory():
    """Lets go of the models of a module: gigabytes over the whole suite."""
    yield
    if "keras" in sys.modules:
        sys.modules["keras"].backend.clear_session()
    gc.collect()
