import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest.mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from albert_tf.config import AlbertConfig
from albert_tf.exporting import check_program
from albert_tf.exporting.check_program import (
    Failed,
    load_export,
    same_as_source,
)
from albert_tf.exporting.config import KINDS, ExportConfig
from albert_tf.exporting.encoder import export_encoder
from albert_tf.exporting.export import export
from albert_tf.exporting.manifest import read_export
from albert_tf.exporting.preprocessor import export_preprocessor
from albert_tf.exporting.reference import source_cases, write_cases
from albert_tf.exporting.saved_model import Endpoint
from albert_tf.finetuning.model_folder import save_model
from albert_tf.finetuning.registry import (
    known_task,
    make_task_type,
    with_settings,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

PROGRAMS = pathlib.Path(__file__).parent / "programs"
LONGEST = 40
PACKAGES = {
    "onnx": ("onnx", "tf2onnx", "onnxruntime"),
    "openvino": ("onnx", "tf2onnx", "openvino"),
    "web": ("onnx", "tf2onnx", "onnxruntime"),
}
VOCAB_SIZE = 90


@pytest.fixture(scope="session")
def run_program(forked):
    """Returns `run(name, *arguments)`: runs a program without albert_tf."""

    def run(name, *arguments, python=None, **environment):
        # It has imported, but not used, what most programs begin with.
        python = python or forked(
            "import tensorflow, tensorflow_text", **environment
        )
        result = subprocess.run(
            [python, PROGRAMS / name, *map(str, arguments)],
            env={**os.environ, **environment},
            # Outside the repository, so that nothing in it can be imported.
            cwd=pathlib.Path(sys.executable).anchor,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            pytest.fail(
                f"{name} failed:\n{result.stderr[-4000:]}", pytrace=False
            )

    return run


@pytest.fixture
def run_in_tensorflow(run_program, tmp_path):
    """Returns `run(pairs of a source and its export)`.

    Compares them in a process without albert_tf, see the program.
    """

    def run(pairs, **options):
        arguments = []
        for number, (source, folder) in enumerate(pairs):
            cases = tmp_path / f"cases-{number}"
            write_cases(cases, source_cases(source, read_export(folder)))
            arguments += [folder, cases]
        run_program(
            "exports_in_tensorflow.py",
            check_program.__file__,
            tmp_path / "saved_again",
            *arguments,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def tokenizer_model(tmp_path_factory):
    words = "a an the good bad movie film plot was really I have seen it not"
    rng = np.random.default_rng(0)
    lines = [
        f"{' '.join(rng.choice(words.split(), 8))} {n}, {n + 1},000."
        for n in range(300)
    ]
    prefix = tmp_path_factory.mktemp("a-private-place") / "spiece"
    return train_vocabulary(
        lines, prefix, VocabularyConfig(vocab_size=VOCAB_SIZE)
    )


@pytest.fixture(scope="session")
def tokenizer(tokenizer_model):
    return AlbertTokenizer.from_file(tokenizer_model)


@pytest.fixture(scope="session")
def config():
    return AlbertConfig(
        vocab_size=VOCAB_SIZE,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LONGEST,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.2,
    )


def perturbed(model, seed):
    """Moves weights away from 0 and 1, so that each changes the outputs."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(weight + rng.normal(0, 0.2, weight.shape))
    return model


@pytest.fixture(scope="session")
def perturb():
    return perturbed


@pytest.fixture(scope="session")
def pretrainer(config):
    return perturbed(AlbertPretrainer(config), 1)


@pytest.fixture(scope="session")
def wide(config):
    """An encoder whose matrices are large enough to be quantized."""
    sizes = {"embedding_size": 32, "hidden_size": 64, "intermediate_size": 128}
    encoder = AlbertEncoder(config.replace(**sizes))
    rng = np.random.default_rng(1)
    for weight in encoder.weights:
        # Far from zeros and ones, so that each weight shows in the outputs; and
        # the same in every run, since the errors of quantization depend on it.
        center = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(center + rng.normal(0, 0.1, weight.shape))
    return encoder


@pytest.fixture(scope="session")
def need_packages():
    """Skips a test if packages that a kind of export needs are not there."""

    def need(kind):
        for package in PACKAGES.get(kind, ()):
            pytest.importorskip(package, reason=f"{package} is not installed")

    return need


@pytest.fixture(scope="session")
def has_dropout():
    """Returns `has_dropout(call)`: whether the call's outputs are random."""

    def has_dropout(call):
        spread = np.max(np.ptp([np.asarray(call()) for _ in range(3)], axis=0))
        assert spread < 1e-6 or spread > 1e-3
        return spread > 1e-3

    return has_dropout


@pytest.fixture(scope="session")
def inputs():
    rng = np.random.default_rng(2)
    mask = (np.arange(12) < np.array([12, 5, 1, 8])[:, None]).astype("int32")
    return {
        "input_word_ids": rng.integers(5, VOCAB_SIZE, mask.shape, "int32")
        * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(12) > 4).astype("int32") * mask,
    }


@pytest.fixture(scope="session")
def encoder_path(pretrainer, tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "encoder"
    export_encoder(pretrainer, path, tokenizer=tokenizer)
    return path


@pytest.fixture(scope="session")
def model_garden():
    """Folder with an export of Model Garden, and its outputs."""
    return pathlib.Path(__file__).parents[1] / "interop" / "data" / "stored"


@pytest.fixture(scope="session")
def model_garden_path(model_garden, tmp_path_factory):
    """An export of Model Garden: 40 pieces, rows of up to 16 tokens."""
    folder = tmp_path_factory.mktemp("model-garden")
    shutil.unpack_archive(model_garden / "tf_hub_2.tar.gz", folder)
    return folder / "tf_hub_2"


@pytest.fixture(scope="session")
def packed_path(pretrainer, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "packed"
    export_encoder(pretrainer, path, tokenizer=None, packed=True)
    return path


@pytest.fixture(scope="session")
def preprocessor_path(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "preprocessor"
    export_preprocessor(tokenizer, path, seq_length=20)
    return path


@pytest.fixture(scope="session")
def make_pretrained(config, tokenizer, tmp_path_factory):
    """Returns `make(seed)`: a folder of `save_pretrained`, with one layer."""

    def make(seed):
        keras.utils.set_random_seed(seed)
        folder = tmp_path_factory.mktemp("a-private-place") / f"seed-{seed}"
        model = AlbertPretrainer(config.replace(num_hidden_layers=1))
        model.save_pretrained(folder, tokenizer)
        return folder

    return make


@pytest.fixture(scope="session")
def pretrained(make_pretrained):
    return make_pretrained(1)


@pytest.fixture(scope="session")
def assert_same_as_source():
    """Returns `check(source, folder)` for exports of tasks.

    The comparison of `albert export --check --model` must pass, and fail if any
    of the outputs is changed.
    """

    def check(source, folder):
        model = load_export(folder)
        for _, endpoint, inputs, expected in source_cases(
            source, read_export(folder)
        ):
            assert expected
            found = model.call(endpoint, inputs)
            with unittest.mock.patch.object(model, "call", return_value=found):
                figure = same_as_source(model, endpoint, inputs, expected)
                for name, values in expected.items():
                    assert name in figure
                    other = values.copy()
                    other[0] = b"other" if values.dtype.kind == "S" else 1e3
                    other = {**expected, name: other}
                    with pytest.raises(Failed, match=name):
                        same_as_source(model, endpoint, inputs, other)

    return check


@pytest.fixture(scope="session")
def fine_tuned_run(config, tokenizer, tmp_path_factory):
    """The folder of a fine-tuning run for pairs of texts."""
    run = tmp_path_factory.mktemp("a-private-place") / "reviews"
    task_config = with_settings(known_task("mrpc"), {"max_seq_length": 24})
    values = json.loads(task_config.to_json())
    values["scores"] = {"f1": 0.75, "accuracy": 0.5}
    values["baselines"] = {"most frequent label": {"f1": 0.5}}
    task_config = type(task_config).from_json(json.dumps(values), "test")
    kind = make_task_type(task_config, tokenizer)
    keras.utils.set_random_seed(2)
    model = kind.model_class(
        config.replace(num_hidden_layers=1), **kind.model_arguments()
    )
    save_model(run / "model", model, kind, task_config)
    (run / "flags.txt").write_text(
        "--alsologtostderr\n--nodebug\n--task=mrpc\n--norematerialize\n"
        "--learning_rate=2e-05\n--cache_dir=\n--init_from=albert/albert-base-v2"
        f"\n--train={run}/train.tsv,../more/more.tsv\n--output={run}\n"
        "--log_dir=\n--tpu=grpc://10.0.0.2:8470\n--data=~/glue\n"
    )
    return run


def traces(endpoint, path=""):
    """Returns attribute path -> number of traces of the function there."""
    counts = {}
    for name, value in vars(endpoint).items():
        if isinstance(value, polymorphic_function.Function):
            count = value.experimental_get_tracing_count()
            counts[f"{path}.{name}"] = count
        elif isinstance(value, Endpoint):
            counts |= traces(value, f"{path}.{name}")
    return counts


class Exports(dict):
    """Kind -> (source, export), made when it is first used.

    Attributes:
      traces: kind -> `traces` before and after the SavedModel was saved.
    """

    def __init__(self, sources, folder, need_packages, find_scripts):
        super().__init__()
        self._sources, self._folder = sources, folder
        self._need_packages, self._find_scripts = need_packages, find_scripts
        self.traces = {}

    def __missing__(self, kind):
        settings = {"kind": kind, "license": "Apache-2.0"}
        if kind == "web":
            settings["web_packages"] = self._find_scripts() / "node_modules"
        self._need_packages(kind)
        save, counts = tf.saved_model.save, []

        def counted_save(root, *arguments, **options):
            counts.append(traces(root))
            save(root, *arguments, **options)
            counts.append(traces(root))

        source, folder = self._sources[kind], self._folder / kind
        with unittest.mock.patch.object(tf.saved_model, "save", counted_save):
            export(ExportConfig(model=source, output=folder, **settings))
        self.traces[kind] = counts
        self[kind] = source, folder
        return self[kind]


@pytest.fixture(scope="session")
def exports(
    pretrained, fine_tuned_run, need_packages, tmp_path_factory, request
):
    """An `Exports`, shared by all tests."""
    sources = dict.fromkeys(KINDS, pretrained) | {"task": fine_tuned_run}
    return Exports(
        sources,
        tmp_path_factory.mktemp("exports"),
        need_packages,
        functools.partial(request.getfixturevalue, "npm_packages"),
    )


@pytest.fixture(scope="module")
def task_exports(make_finetuned, tmp_path_factory):
    """Returns `get(task)`: (source, export) of a fine-tuned model."""

    @functools.cache
    def get(name):
        lengths = {"max_seq_length": 32, "max_qa_length": 12}
        lengths |= {"max_query_length": 8, "doc_stride": 9}
        # As tuned on a development set; some of the texts are below it.
        null = {"null_threshold": 0.0} if name == "squad2.0" else {}
        source = make_finetuned(name, **lengths, **null)
        folder = tmp_path_factory.mktemp("tasks") / name
        export(ExportConfig(model=source, output=folder, kind="task"))
        return source, folder

    return get


@pytest.fixture(scope="module")
def huggingface_exports(
    make_finetuned, pretrained, need_packages, tmp_path_factory
):
    """Returns `get(name)`: (source, export) in Hugging Face's layout.

    `name` is a task, "pretrained" for a masked language model, or "encoder".
    """
    need_packages("onnx")

    @functools.cache
    def get(name):
        folder = tmp_path_factory.mktemp("huggingface") / name
        if name == "pretrained":
            source = pretrained
        elif name == "encoder":
            source = folder.with_name("encoder-source")
            model = AlbertEncoder.from_pretrained(pretrained, pooler=False)
            model.save_pretrained(source)
        else:
            lengths = {"max_seq_length": 32, "max_query_length": 8}
            source = make_finetuned(name, **lengths)
        settings = {"kind": "onnx", "layout": "huggingface"}
        export(ExportConfig(model=source, output=folder, **settings))
        return source, folder

    return get


@pytest.fixture(scope="session")
def length():
    """Tokens in a row of LiteRT models."""
    return 24


@pytest.fixture(scope="session")
def make_rows(config, length):
    """Returns `rows(count, length, seed)`: rows of ids, some with padding."""

    def make(count, length=length, seed=0):
        rng = np.random.default_rng(seed)
        rows = []
        for number in range(count):
            mask = np.ones([1, length], "int32")
            if number % 2:
                mask[:, rng.integers(2, length) :] = 0
            ids = rng.integers(5, config.vocab_size, mask.shape, "int32")
            types = (np.arange(length) > 4).astype("int32")
            rows.append(
                {
                    "input_word_ids": ids * mask,
                    "input_mask": mask,
                    "input_type_ids": types * mask,
                }
            )
        return rows

    return make
