"""Compares the models on a GPU with JAX to Hugging Face's with PyTorch.

Measures agreement and speed, without TensorFlow. Both libraries run in the same
process, and systems take turns. Prints Markdown tables.

Example:
  python benchmarks/gpu_speed.py --cases albert_base_v2:8x128 --parts speed
"""

import argparse
import functools
import gc
import json
import os
import pathlib
import statistics
import tempfile
import time
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import jax  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import report  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from cpu_work import random_batch  # noqa: E402
from gpu_systems import (  # noqa: E402
    BF16,
    DEVICE,
    FIT_BATCHES,
    gradient_of,
    in_turns,
    keras_tasks,
    once,
    our_tasks,
    torch_inputs,
    torch_tasks,
    weights_of,
)
from keras import ops  # noqa: E402

from albert_tf.config import AlbertConfig  # noqa: E402
from albert_tf.finetuning.text_classification.model import (  # noqa: E402
    AlbertClassifier,
)
from albert_tf.models.flops import (  # noqa: E402
    encoder_flops,
    pretraining_step_flops,
)
from albert_tf.models.pretrainer import AlbertPretrainer  # noqa: E402
from albert_tf.text.packing import ENCODER_INPUTS  # noqa: E402

CASES = ["albert_base_v2:8x128", "albert_base_v2:32x512"]
PARTS = ["parity", "attention", "speed", "fit"]


def matmul_rate(size=8192):
    """Returns the rate of a bfloat16 product in operations per second."""
    a, b = jax.random.normal(jax.random.key(0), (2, size, size), "bfloat16")
    product = jax.jit(jax.numpy.matmul)
    times = [once(lambda: product(a, b), 10) for _ in range(5)]
    return 2 * size**3 / statistics.median(times)


def measure_case(config, batch, length, repeats) -> dict[str, Any]:
    """Returns the seconds of each turn, by task and system."""
    examples = random_batch(config, batch, length)
    systems = {
        "albert_tf": our_tasks(config, examples),
        "albert_tf, flash attention": our_tasks(config, examples, flash=True),
        "albert_tf, Keras's trainer": keras_tasks(config, examples),
        "PyTorch, eager": torch_tasks(config, examples, "eager"),
        "PyTorch, SDPA": torch_tasks(config, examples),
        "PyTorch, SDPA, compiled": torch_tasks(config, examples, compiled=True),
    }
    tasks = {
        (task, system): run
        for system, runs in systems.items()
        for task, run in runs.items()
    }
    seconds: dict[str, Any] = {"forward": {}, "step": {}}
    for (task, system), times in in_turns(tasks, repeats).items():
        if task == "fit" and not isinstance(times, str):
            times = [t / FIT_BATCHES for t in times]
        name = system if task in seconds else f"{system}, {task}"
        seconds[task if task in seconds else "step"][name] = times
    return seconds


def speed(cases, repeats, results):
    """Measures all cases and returns a table."""
    results["matmul"] = rate = matmul_rate()
    results["seconds"], rows = {}, []
    for case in cases:
        name, shape = case.split(":")
        batch, length = map(int, shape.split("x"))
        config = without_dropout(name)
        seconds = measure_case(config, batch, length, repeats)
        results["seconds"][case] = seconds
        flops = {
            "forward": batch * encoder_flops(config, length, length),
            "step": batch * pretraining_step_flops(config, length, 20),
        }
        for task, systems in seconds.items():
            for system, times in systems.items():
                row = [f"{case}, {task}, {system}", times]
                if not isinstance(times, str):
                    middle = statistics.median(times)
                    share = flops[task] / middle / rate
                    row[1:] = [
                        f"{1e3 * middle:.2f} ({1e3 * min(times):.2f})",
                        report.ratios(times, systems["albert_tf"]),
                        f"{batch / middle:.0f}",
                        f"{share:.0%}",
                    ]
                rows.append(row)
        gc.collect()
        jax.clear_caches()
        torch.compiler.reset()
        torch.cuda.empty_cache()
    header = [
        "case",
        "ms: median (min)",
        "times ours",
        "sequences/s",
        "of peak",
    ]
    return f"bf16 product: {rate / 1e12:.0f} TFLOP/s\n\n" + report.table(
        header, rows
    )


def without_dropout(name):
    """Returns an official architecture without dropout."""
    return AlbertConfig.from_official(
        name, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


def parity(config, results, batch=8, length=128):
    """Compares outputs and gradients with PyTorch's in float32."""
    examples = random_batch(config, batch, length)
    lengths = np.random.default_rng(1).integers(length // 2, length, batch)
    real = np.arange(length) < lengths[:, None]
    examples["input_mask"] = real.astype("int32")
    models = {
        dtype: AlbertPretrainer(config, dtype=dtype)
        for dtype in ("float32", BF16)
    }
    rng = np.random.default_rng(2)
    weights = [
        w + 0.02 * rng.standard_normal(w.shape, "float32")
        for w in models["float32"].get_weights()
    ]
    for model in models.values():
        model.set_weights(weights)
    with tempfile.TemporaryDirectory() as folder:
        models["float32"].save_pretrained(folder)
        theirs = transformers.AlbertForPreTraining.from_pretrained(folder)
    theirs = theirs.to(DEVICE).eval()
    tensors, inputs = torch_inputs(examples)

    def their_run():
        theirs.zero_grad()
        outputs = theirs.albert(**inputs)
        rows = torch.arange(batch, device=DEVICE)[:, None]
        states = outputs[0][rows, tensors["masked_lm_positions"]]
        logits = theirs.predictions(states).float()
        order = theirs.sop_classifier(outputs[1]).float()
        cross_entropy = torch.nn.functional.cross_entropy
        loss = cross_entropy(
            logits.flatten(0, 1), tensors["masked_lm_ids"].flatten()
        ) + cross_entropy(order, tensors["sentence_order_labels"])
        loss.backward()
        table = theirs.albert.embeddings.word_embeddings.weight
        arrays = (outputs[0], outputs[1], table.grad)
        return [a.detach().float().cpu().numpy() for a in arrays]

    def our_run(dtype, precision):
        model = models[dtype]
        with jax.default_matmul_precision(precision):
            outputs = jax.jit(model.encoder.stateless_call)(
                *weights_of(model.encoder),
                {name: examples[name] for name in ENCODER_INPUTS},
            )[0]
            gradient = gradient_of(model, AlbertPretrainer.INPUTS)
            grads = jax.jit(gradient)(*weights_of(model), examples)[1]
        paths = [v.path for v in model.trainable_variables]
        word = next(i for i, p in enumerate(paths) if "word_emb" in p)
        arrays = (outputs["sequence_output"], outputs["pooled_output"])
        flat = np.concatenate([np.ravel(g) for g in grads])
        return [
            *(np.asarray(a, "float32") for a in (*arrays, grads[word]))
        ], flat

    want = their_run()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        runs: dict[str, Any] = {"PyTorch, bf16 autocast": (their_run(), None)}
    for dtype, precision in (
        ("float32", "highest"),
        ("float32", "default"),
        (BF16, "default"),
    ):
        runs[f"albert_tf, {dtype}, {precision}"] = our_run(dtype, precision)
    exact = runs["albert_tf, float32, highest"][1]
    rows = []
    for name, (got, flat) in runs.items():
        row = [name]
        for ours, other in zip(got[:2], want[:2], strict=True):
            if ours.ndim == 3:
                ours, other = ours[real], other[real]
            error = np.linalg.norm(ours - other) / np.linalg.norm(other)
            row.append(f"{np.abs(ours - other).max():.1e} ({error:.1e})")
        row.append(f"{1 - cosine(got[2], want[2]):.1e}")
        row.append("" if flat is None else f"{1 - cosine(flat, exact):.1e}")
        rows.append(row)
    results["parity"] = rows
    header = [
        "against PyTorch float32: max error (relative)",
        "sequence output",
        "pooled output",
        "1 - cosine, word gradient",
        "1 - cosine, all gradients, against ours in float32",
    ]
    return report.table(header, rows)


def cosine(a, b):
    """Returns the cosine of two arrays."""
    a, b = np.ravel(a).astype("float64"), np.ravel(b).astype("float64")
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def attention(results, repeats, heads=12, size=64):
    """Times attention alone: ours, Keras's operation and its fused kernel."""
    rows = []
    for batch, length in ((8, 128), (32, 512)):
        shape = (3, batch, length, heads, size)
        qkv = jax.random.normal(jax.random.key(0), shape, "bfloat16")
        mask = jax.numpy.ones((batch, 1, length, length), bool)

        def ours(q, k, v, mask=mask):
            q, k, v = (ops.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))
            scores = ops.matmul(q / 8, ops.transpose(k, (0, 1, 3, 2)))
            bias = ops.where(mask[:, :, :1], 0.0, -1e4)
            probs = ops.softmax(ops.cast(scores, "float32") + bias)
            context = ops.matmul(ops.cast(probs, "bfloat16"), v)
            return ops.transpose(context, (0, 2, 1, 3))

        op = ops.dot_product_attention
        kinds = {
            "ours": ours,
            "Keras, no flash": functools.partial(
                op, mask=mask, flash_attention=False
            ),
            "Keras, flash": functools.partial(
                op, mask=mask, flash_attention=True
            ),
            "Keras, flash, no mask": functools.partial(
                op, flash_attention=True
            ),
        }
        tasks: dict[tuple[str, str], Any] = {}
        for kind, function in kinds.items():
            run = jax.jit(function)
            tasks["forward", kind] = lambda run=run, x=qkv: run(*x)

            def total(q, k, v, function=function):
                return ops.sum(
                    ops.square(ops.cast(function(q, k, v), "float32"))
                )

            both = jax.jit(jax.grad(total, argnums=(0, 1, 2)))
            tasks["gradient", kind] = lambda both=both, x=qkv: both(*x)
        for (task, kind), times in in_turns(tasks, repeats).items():
            if not isinstance(times, str):
                times = f"{1e6 * statistics.median(times):.0f}"
            rows.append([f"{batch}x{length}, {task}, {kind}", times])
    results["attention"] = rows
    return report.table(["attention, bf16", "microseconds"], rows)


def fit(results, rows, length=128, batch=64, epochs=4):
    """Trains a small classifier of two ranges of word ids."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, rows).astype("int32")
    ids = rng.integers(5, 1000, (rows, length)) + 1000 * labels[:, None]
    x = {
        "input_word_ids": ids.astype("int32"),
        "input_mask": np.ones((rows, length), "int32"),
        "input_type_ids": np.zeros((rows, length), "int32"),
    }
    model = AlbertClassifier(without_dropout("albert_tiny"), 2, dtype=BF16)
    model.compile(
        keras.optimizers.AdamW(2e-5, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    table = []
    for epoch in range(epochs):
        start = time.perf_counter()
        logs = model.fit(x, labels, batch_size=batch, verbose=0).history
        seconds = time.perf_counter() - start
        table.append(
            [
                str(epoch + 1),
                f"{logs['loss'][0]:.4f}",
                f"{logs['accuracy'][0]:.3f}",
                f"{seconds:.2f}",
                f"{rows / seconds:.0f}",
            ]
        )
    results["fit"] = table
    header = ["epoch", "loss", "accuracy", "seconds", "sequences/s"]
    return report.table(header, table)


def main():
    """Measures and prints the parts that the flags select."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--config", default="albert_base_v2")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--json", type=pathlib.Path)
    flags = parser.parse_args()
    config = without_dropout(flags.config)
    results = {
        "command": report.command(),
        "device": str(jax.devices()[0].device_kind),
        "versions": {
            module.__name__: module.__version__
            for module in (keras, jax, torch, transformers)
        },
    }
    print(*(f"- {key}: {value}" for key, value in results.items()), sep="\n")
    runs = {
        "parity": lambda: parity(config, results),
        "attention": lambda: attention(results, flags.repeats),
        "speed": lambda: speed(flags.cases, flags.repeats, results),
        "fit": lambda: fit(results, flags.rows),
    }
    for part in flags.parts:
        print(f"\n{runs[part]()}", flush=True)
        if flags.json:
            flags.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
