import contextlib
import dataclasses
import gc
import json
import os
import pathlib
import random
import sys

import pytest

# Before TensorFlow is imported anywhere: its start-up chatter hides failures.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Each of xdist's processes has cores of its own: threads of TensorFlow that
# share cores with those of others wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    _number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    _count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    _cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, _cores[_number % len(_cores) :: _count])

# As `albert` has it, so that tests compute alike in and out of their process.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Before TensorFlow, too: Triton, which comes with PyTorch's CUDA build, crashes
# the process when it is loaded after it.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401

_REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def pytest_configure(config):
    """Imports TensorFlow, except in xdist's first process: that has no tests.

    Two virtual devices stand in for two accelerators. This has to come before
    TensorFlow starts, which any module of tests may make it do by a tensor, so
    it is neither a fixture nor in the modules that need it; CPU:0 alone works
    as ever.
    """
    if not config.getoption("numprocesses", None):
        # pytest does not capture yet: TensorFlow would write to the terminal.
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.resume_global_capture()
        import tensorflow as tf

        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * 2,
        )
        capture.suspend_global_capture()
        for name in ("process_fixtures", "pretraining_fixtures"):
            config.pluginmanager.import_plugin(name)


def pytest_fixture_setup(fixturedef):
    """Seeds what Keras draws the seeds of new weights from.

    So models of fixtures and tests have the same weights whatever ran before
    them, in whichever process.
    """
    random.seed(f"{fixturedef.baseid}::{fixturedef.argname}")


def pytest_runtest_call(item):
    """Seeds the models of a test, see `pytest_fixture_setup`."""
    random.seed(item.nodeid)


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


@pytest.fixture(scope="session")
def stored():
    """The folder of checkpoints that every release must open."""
    return _REPOSITORY / "tests" / "interop" / "data" / "stored"


@pytest.fixture(scope="session")
def google_tokenizer(shared):
    """The tokenizer of Google's released models."""
    from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

    path = shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    return AlbertTokenizer.from_file(path)


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """Real prose: the language reference and the standard library's."""
    from albert_tf.demo.corpora import python_documents

    path = tmp_path_factory.mktemp("text") / "python.txt"
    documents = [
        "\n\n".join(paragraphs) for _, paragraphs in python_documents([])
    ]
    path.write_text("\n\n\n".join(documents), "utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizer(text_file, tmp_path_factory):
    """A SentencePiece model of 600 pieces, trained on `text_file`."""
    from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
    from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

    prefix = tmp_path_factory.mktemp("vocab") / "spiece"
    lines = text_file.read_text("utf-8").splitlines()
    return AlbertTokenizer.from_file(
        train_vocabulary(lines, prefix, VocabularyConfig(vocab_size=600))
    )


@pytest.fixture(scope="session")
def checkpoint(tokenizer, tmp_path_factory):
    """A folder with an untrained model that is far from zero."""
    import keras

    from albert_tf.config import AlbertConfig
    from albert_tf.models.pretrainer import AlbertPretrainer

    folder = tmp_path_factory.mktemp("checkpoint") / "model"
    config = AlbertConfig(
        vocab_size=tokenizer.vocab_size,
        embedding_size=32,
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
    )
    keras.utils.set_random_seed(1)
    AlbertPretrainer(config).save_pretrained(folder, tokenizer)
    return folder


@pytest.fixture(scope="session")
def make_records(text_file, tokenizer, tmp_path_factory):
    """Returns `make(**settings)`: a folder of records of 32 tokens."""
    from albert_tf.data.create_data import create_pretraining_data
    from albert_tf.data.data_config import PretrainingDataConfig

    def make(**settings):
        folder = tmp_path_factory.mktemp("records") / "data"
        settings = {
            "tokenizer": tokenizer,
            "max_seq_length": 32,
            "max_predictions_per_seq": 5,
            "heldout_fraction": 0.1,
            "masking": "static",
            "pack": False,
            "dupe_factor": 1,
            **settings,
        }
        create_pretraining_data(
            PretrainingDataConfig(
                input=[str(text_file)],
                output=folder,
                text_format="prose",
                **settings,
            )
        )
        return folder

    return make


@pytest.fixture(scope="session")
def records(make_records):
    """A folder of records of 32 tokens of `text_file`."""
    return make_records()


@pytest.fixture(scope="session")
def config():
    """A small architecture."""
    from architectures import SMALL

    return SMALL


# Not once per session: folders of tests have architectures of their own.
@pytest.fixture(scope="module")
def make_finetuned(config, tokenizer, tmp_path_factory):
    """Returns `make(task, **settings)`: the folder of a fine-tuned model.

    Settings that the task does not have are left out. A head that is not the
    task's follows its name, as in "stsb pair_features". The model has one
    layer, as each layer slows down the tracing of every graph.
    """
    import keras

    from albert_tf.finetuning.model_folder import save_model
    from albert_tf.finetuning.registry import known_task, make_task_type

    def make(name, **settings):
        name, _, head = name.partition(" ")
        task_config = known_task(name)
        if name == "ner":
            task_config = dataclasses.replace(
                task_config, labels=("B-X", "B-Y", "O")
            )
        known = dict(task_config.settings)
        known |= {n: x for n, x in settings.items() if n in known}
        known |= {"head": head} if head else {}
        task_config = dataclasses.replace(task_config, settings=known)
        kind = make_task_type(task_config, tokenizer)
        keras.utils.set_random_seed(4)
        model = kind.model_class(
            config.replace(num_hidden_layers=1), **kind.model_arguments()
        )
        for weight in model.weights:
            # Without zeros, so that no two answers have the same score.
            weight.assign(
                weight + keras.random.normal(weight.shape, stddev=0.1)
            )
        folder = tmp_path_factory.mktemp("a-private-place") / name
        save_model(folder, model, kind, task_config)
        return folder

    return make


@pytest.fixture(scope="session")
def assert_close():
    """Compares JSON values or arrays: numbers to 1e-5, else equal."""
    import numpy as np

    def check(value, other):
        if isinstance(value, dict):
            assert value.keys() == other.keys()
            for key, x in value.items():
                check(x, other[key])
        elif isinstance(value, list):
            assert len(value) == len(other)
            for pair in zip(value, other, strict=True):
                check(*pair)
        elif isinstance(value, (float, np.ndarray)):
            np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-5)
        else:
            assert value == other

    return check


@pytest.fixture
def batch():
    """The encoder's dict `[4, 12]`, ragged."""
    import numpy as np

    rng = np.random.default_rng(0)
    mask = (np.arange(12) < np.array([7, 8, 12, 9])[:, None]).astype("int32")
    return {
        "input_word_ids": rng.integers(5, 50, mask.shape, "int32") * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(12) >= 3).astype("int32") * mask,
    }


@pytest.fixture
def round_trip(tmp_path):
    """Saves a model as `.keras` and loads it."""

    import keras

    def run(model):
        model.save(tmp_path / "model.keras")
        return keras.saving.load_model(tmp_path / "model.keras")

    return run


@pytest.fixture(scope="session")
def eagerly():
    """Returns a context without graphs, the dearest part of a few steps."""
    import tensorflow as tf

    @contextlib.contextmanager
    def run():
        tf.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tf.config.run_functions_eagerly(False)

    return run


@pytest.fixture
def without_graphs(eagerly):
    """Runs a test in the context of `eagerly`."""
    with eagerly():
        yield


@pytest.fixture(scope="session")
def contents():
    """Returns `contents(folder) -> path of each file in it -> bytes`."""
    return lambda folder: {
        x.relative_to(folder).as_posix(): x.read_bytes()
        for x in folder.rglob("*")
        if x.is_file()
    }


@pytest.fixture(scope="session")
def edited():
    """Returns a context, `edited(path) -> values` of JSON to be changed."""

    @contextlib.contextmanager
    def edit(path):
        values = json.loads(path.read_text("utf-8"))
        yield values
        path.write_text(json.dumps(values), "utf-8")

    return edit


# Of one or a few tests, each of a minute.
_LONGEST = ("test_documentation.py", "test_chain.py", "test_cpu_speed.py")


def pytest_collection_modifyitems(items):
    """Begins with the longest files, or a process would wait for the last."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_collection_finish():
    """Spares the garbage collector the libraries, millions of objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _free_memory():
    """Lets go of the models of a module: gigabytes over the whole suite.

    What outlives a module is imported or cached, and is not looked at again.
    """
    yield
    if "keras" in sys.modules:
        sys.modules["keras"].backend.clear_session()
    gc.collect()
    gc.freeze()
