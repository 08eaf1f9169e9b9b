"""Pretrains an ALBERT with JAX, on one GPU or TPU, without TensorFlow.

    albert convert-data --input=data --output=arrays --num_epochs=4
    python examples/pretrain_jax.py --input=arrays --output=run \
        --config=config.json --objective=rtd --precision=mixed_bfloat16 \
        --train_batch_size=256 --num_train_steps=20000 --learning_rate=1e-3

It trains the objectives of albert_tf on the examples of `albert pretrain` with
the same seed, in the same order, and with the same optimizer. Repeating the
command resumes. `run/model` is a checkpoint that all commands open.
"""

import argparse
import functools
import json
import os
import pathlib
import re
import time

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.example_arrays import ExampleArrays
from albert_tf.errors import InputError, exit_on_input_error
from albert_tf.interop.checkpoint import Vocabulary, check_tokenizer
from albert_tf.interop.growing import grow
from albert_tf.interop.names import ANY_HEAD
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.state_file import claim_folder, read_state, write_state
from albert_tf.models.pretrained import assign_weights
from albert_tf.objectives.registry import load_objective_module, make_objective
from albert_tf.settings import parse_values
from albert_tf.text.tokenizer_files import load_tokenizer

EXCLUDED = re.compile("layer_norm|bias")  # from decay, as in the original
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-6
MAY_CHANGE = re.compile("input|output|config|init|module|steps|minutes|peak")
DIVERGED = "training diverged, the last state is kept; lower --learning_rate"


def parse_arguments():
    """Returns the flags."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--input", required=True, help="folder of `albert convert-data`")
    add("--output", required=True, help="folder of the run")
    add("--config", help="JSON file of the architecture")
    add("--init_from", help="checkpoint in any format to start from")
    add("--objective", default="mlm", help="mlm, rtd, or one of your own")
    add("--objective_settings", default="", help="NAME=VALUE,...")
    add("--objective_module", help="Python file that defines the objective")
    add("--precision", default="float32", choices=("float32", "mixed_bfloat16"))
    add("--train_batch_size", type=int, default=256)
    add("--num_train_steps", type=int, default=10_000)
    add("--num_warmup_steps", type=int, default=0)
    add("--decay_steps", type=int, default=0, help="with a falling rate")
    add("--max_minutes", type=float, default=1e9, help="time limit")
    add("--decay_minutes", type=float, default=0.0, help="as --decay_steps")
    add("--learning_rate", type=float, default=1e-3)
    add("--weight_decay", type=float, default=0.01)
    add("--clip_norm", type=float, default=1.0, help="0: no clipping")
    add("--ema_decay", type=float, default=0.0, help="average of the weights")
    add("--seed", type=int, default=0, help="of weights, dropout and draws")
    add("--steps_per_call", type=int, default=10)
    add("--log_steps", type=int, default=100)
    add("--save_minutes", type=float, default=5.0)
    add("--peak_tflops", type=float, default=0.0, help="of the device")
    return parser.parse_args()


def learning_rate(arguments, steps, minutes_left):
    """Returns the rates of --schedule=warmup_stable_decay, float32."""
    rate = np.float32(arguments.learning_rate)
    warmup, decay = arguments.num_warmup_steps, arguments.decay_steps
    rates = np.full(len(steps), rate, np.float32)
    if warmup:
        rates = np.where(steps < warmup, steps * (rate / warmup), rates)
    if decay:
        since = np.maximum(steps - (arguments.num_train_steps - decay), 0)
        rates = rates * (1 - np.sqrt(np.float32(since) / np.float32(decay)))
    if 0 < arguments.decay_minutes > minutes_left:
        share = max(minutes_left, 0) / arguments.decay_minutes
        rates = rates * (1 - np.sqrt(np.float32(1 - share)))
    return rates.astype(np.float32)


def make_step(model, objective, arguments):
    """Returns `run(state, batches, rates)`, which makes several updates."""
    variables = model.trainable_variables
    full = arguments.weight_decay
    decays = [0.0 if EXCLUDED.search(v.path) else full for v in variables]
    key = jax.random.key(arguments.seed)

    def loss_of(weights, batch, step):
        seed = jax.random.key_data(jax.random.fold_in(key, step))
        with keras.StatelessScope(zip(variables, weights, strict=True)):
            return objective(model, batch, objective.normalizers(batch), seed)

    def update(state, inputs):
        batch, rate = inputs
        (loss, metrics), gradients = jax.value_and_grad(loss_of, has_aux=True)(
            state["weights"], batch, state["step"].astype(jnp.uint32)
        )
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients))
        clip = arguments.clip_norm or jnp.inf
        scale = jnp.minimum(1.0, clip / norm)
        k = state["step"].astype(jnp.float32)
        ema_decay = jnp.minimum(arguments.ema_decay, (1 + k) / (10 + k))
        new = {name: [] for name in ("weights", "m", "v", "average")}
        old = [state[name] for name in new]
        for g, decay, *slots in zip(gradients, decays, *old, strict=True):
            g, (w, m, v, average) = g * scale, slots
            m = BETA_1 * m + (1 - BETA_1) * g
            v = BETA_2 * v + (1 - BETA_2) * jnp.square(g)
            decay *= jnp.any(v > 0)  # Weights without gradients do not decay.
            w = w - rate * (m / (jnp.sqrt(v) + EPSILON) + decay * w)
            average += (1 - ema_decay) * (w - average)
            for name, value in zip(new, (w, m, v, average), strict=True):
                new[name].append(value)
        metrics["loss"] = jnp.stack([loss, 1.0])
        return {**new, "step": state["step"] + 1}, metrics

    @functools.partial(jax.jit, donate_argnums=0)
    def run(state, batches, rates):
        state, metrics = jax.lax.scan(update, state, (batches, rates))
        return state, jax.tree.map(lambda x: x.sum(0), metrics)

    return run


def save(state, folder, model, settings, seconds):
    """Writes the state, then the model; each appears when it is complete."""
    if not all(jnp.isfinite(x).all() for x in state["weights"]):
        raise InputError(DIVERGED)
    pairs = zip(model.trainable_variables, state["average"], strict=True)
    for variable, value in pairs:
        variable.assign(value)
    leaves = jax.tree.leaves(jax.device_get(state))
    write_state(folder / "state.npz", leaves, settings, seconds)
    model.save_pretrained(folder / "model")


def restore(state, folder, settings):
    """Returns the saved state, if there is one, and the seconds it took."""
    found = read_state(folder / "state.npz", settings)
    if found is None:
        return state, 0.0
    leaves = [jnp.asarray(leaf) for leaf in found[0]]
    return jax.tree.unflatten(jax.tree.structure(state), leaves), found[1]


def make_model(arguments, objective, tokenizer, length):
    """Creates the model, from scratch or from a checkpoint."""
    if not arguments.config and not arguments.init_from:
        raise InputError("give --config or --init_from")
    keras.config.set_dtype_policy(arguments.precision)
    keras.utils.set_random_seed(arguments.seed)
    path, given = arguments.init_from, arguments.config
    config = AlbertConfig.from_json(given) if given else None
    checkpoint = open_checkpoint(path, head=ANY_HEAD) if path else None
    if checkpoint:
        check_tokenizer(f"init_from={path}", checkpoint, tokenizer)
        checkpoint = grow(checkpoint, config or checkpoint.config)
    config = config or checkpoint.config
    if config.vocab_size != (size := tokenizer.vocab_size):
        raise InputError(f"vocab_size={config.vocab_size}, but the data {size}")
    trained = checkpoint.config.num_trained_positions if checkpoint else 0
    config = config.replace(trained_positions=max(trained, length))
    model = objective.create_model(config)  # Its heads are saved, too.
    if checkpoint:
        kept = objective.trained_heads(checkpoint)
        print(assign_weights(model, checkpoint, new_head=True, kept_heads=kept))
    model.vocabulary = Vocabulary(tokenizer)
    return model


def main():
    """Trains, logs and saves."""
    arguments = parse_arguments()
    for name in ("log_steps", "steps_per_call", "train_batch_size", "seed"):
        if vars(arguments)[name] < (least := int(name != "seed")):
            raise InputError(f"{name} must be at least {least}")
    data = ExampleArrays(arguments.input)
    folder = pathlib.Path(arguments.output)
    claim_folder(folder / "state.npz")
    if arguments.objective_module:
        load_objective_module(arguments.objective_module)
    name = arguments.objective
    settings = parse_values("objective_settings", arguments.objective_settings)
    task, mask = data.manifest["pair_task"], data.manifest["mask_id"]
    objective = make_objective(name, settings, pair_task=task, mask_id=mask)
    length = data.manifest["max_seq_length"]
    tokenizer = load_tokenizer(arguments.input)
    model = make_model(arguments, objective, tokenizer, length)
    weights = [jnp.array(variable) for variable in model.trainable_variables]
    state = {
        "weights": weights,
        "m": [jnp.zeros_like(x) for x in weights],
        "v": [jnp.zeros_like(x) for x in weights],
        "average": [jnp.copy(x) for x in weights],
        "step": jnp.zeros([], jnp.int32),
    }
    flags = vars(arguments).items()
    kept = {k: v for k, v in flags if not MAY_CHANGE.search(k)}
    kept |= {"model": model.config.to_dict(), "data": data.manifest}
    state, seconds = restore(state, folder, kept)
    step, size = int(state["step"]), arguments.train_batch_size
    run = make_step(model, objective, arguments)
    picks = data.manifest["max_predictions_per_seq"]
    flops = objective.step_flops(model.config, length, picks)
    sums, counted, since, saved = None, step, time.time(), time.time()
    began = time.time() - seconds  # as if all was done by one command
    end = began + 60 * arguments.max_minutes
    while step < arguments.num_train_steps and time.time() < end:
        stop = step - step % arguments.log_steps + arguments.log_steps
        stop = min(stop, arguments.num_train_steps)
        steps = np.arange(step, min(stop, step + arguments.steps_per_call))
        batches = [data.batch(number, size) for number in steps]
        stacked = {k: np.stack([b[k] for b in batches]) for k in batches[0]}
        rates = learning_rate(arguments, steps, (end - time.time()) / 60)
        state, metrics = run(state, stacked, rates)
        step = int(steps[-1]) + 1
        sums = metrics if sums is None else jax.tree.map(jnp.add, sums, metrics)
        if step == stop:
            found, seconds = jax.device_get(sums).items(), time.time() - since
            values = {k: float(a / n) if n else None for k, (a, n) in found}
            if not np.isfinite(values["loss"]):
                raise InputError(DIVERGED)
            values["tokens"] = float(sums["tokens"][0]) / seconds
            if flops and arguments.peak_tflops:
                rate = (step - counted) * size / seconds
                values["peak"] = rate * flops / arguments.peak_tflops / 1e12
            print(json.dumps({"step": step, **values}), flush=True)
            sums, counted, since = None, step, time.time()
        if time.time() - saved > 60 * arguments.save_minutes:
            save(state, folder, model, kept, time.time() - began)
            saved = time.time()
    save(state, folder, model, kept, time.time() - began)


if __name__ == "__main__":
    with exit_on_input_error("pretrain_jax"):
        main()
