"""`albert convert` as people type it; tests/interop has what is refused."""

import pathlib
import shutil

from albert_tf.interop.open_checkpoint import open_checkpoint

STORED = pathlib.Path(__file__).parents[1] / "interop" / "data" / "stored"


def test_google_to_keras_hub(albert, tmp_path):
    shutil.copytree(STORED / "google_tf1", tmp_path / "google_tf1")
    result = albert(
        tmp_path,
        "convert --input=google_tf1 --output=new --to=keras_hub "
        "--drop=sop_head,mlm_head "
        "--config_overrides=attention_probs_dropout_prob=0.1",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "loaded 80 tensors from google_tf1/model.ckpt-best (Google TF1)",
        "components: encoder, pooler, mlm_head, sop_head",
        "tokenizer: 40 pieces",
        "skipped 1 (step counter): global_step",
        "dropped: sop_head",
        "dropped: mlm_head",
        "wrote new (keras_hub)",
    ]
    # In a log, one line for all tensors.
    warning, progress = sorted(result.stderr.splitlines(), reverse=True)
    assert progress == "73 of 73 tensors"
    assert (
        "warning: KerasHub's tokenizer will give the same ids, exc" in warning
    )
    assert open_checkpoint(tmp_path / "new").heads == ()
