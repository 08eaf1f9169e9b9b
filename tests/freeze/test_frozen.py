"""Values and flags are what they were when frozen."""

import json

import keras
import numpy as np
import pytest
from freeze import frozen

VALUES = json.loads(frozen.FILE.read_text())
# Flags that were removed on purpose; CHANGELOG.md names them.
REMOVED = {"cache_dir", "on_divergence", "rollback_window"}
# Of embed: that of the model's folder, otherwise "mean" as before. Of
# create-data: that of the vocabulary, as before, but shown so.
NEW_DEFAULTS = {"pooling", "strip_accents"}


class Stop(keras.callbacks.Callback):
    """Fails after a step, as a run that is killed."""

    def on_train_batch_end(self, batch, logs=None):
        if batch >= 12:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", frozen.VOCABULARIES)
def test_ids_and_offsets(name):
    assert frozen.token_digests(name) == VALUES["tokens"][name]


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_records(masking, tmp_path):
    found = frozen.record_digests(tmp_path, masking)
    assert found == VALUES["records"][masking]


def test_no_flag_is_lost():
    flags = frozen.flags()
    for command, frozen_flags in VALUES["flags"].items():
        kept = {k: v for k, v in frozen_flags.items() if k not in REMOVED}
        assert flags[command].keys() >= kept.keys()
        for name in kept.keys() - NEW_DEFAULTS:
            assert flags[command][name] == kept[name]


@pytest.mark.parametrize("name", VALUES["features"])
def test_features(name, tmp_path):
    assert frozen.feature_digests(tmp_path, name) == VALUES["features"][name]


@pytest.mark.parametrize("name", VALUES["predictions"])
def test_predictions(name, assert_close, tmp_path):
    assert_close(frozen.predicted(tmp_path, name), VALUES["predictions"][name])


@pytest.mark.long
@pytest.mark.parametrize("name", VALUES["exports"])
def test_outputs_of_exports(name, tmp_path):
    if name.startswith(("onnx", "openvino")):
        for package in ("onnx", "tf2onnx", "onnxruntime", "openvino"):
            pytest.importorskip(package, reason=f"{package} is not installed")
    found = frozen.export_outputs(tmp_path, name)
    # Processors with and without 8-bit instructions quantize activations in
    # different places, so that outputs differ by as much as from float32: by up
    # to 0.014 here, where values without quantization are of order 1.
    tolerance = 2e-2 if name.endswith("dynamic") else 1e-5
    # New outputs may come.
    for output, values in VALUES["exports"][name].items():
        if isinstance(values, str):
            assert found[output] == values, output
        else:
            np.testing.assert_allclose(
                found[output], values, atol=tolerance, err_msg=output
            )


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["lamb", "adamw"])
def test_weights(optimizer, tmp_path):
    records = frozen.make_records(tmp_path, "dynamic")
    output, settings = tmp_path / "run", {"optimizer": optimizer}
    if optimizer == "adamw":  # Killed and resumed.
        with pytest.raises(KeyboardInterrupt):
            frozen.pretrain_weights(records, output, [Stop()], **settings)
    found = frozen.pretrain_weights(records, output, **settings)
    expected = VALUES["weights"][optimizer]
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        # Processors round sums in another order.
        np.testing.assert_allclose(found[name], values, atol=1e-5, err_msg=name)
