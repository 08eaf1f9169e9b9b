"""ONNX Runtime, OpenVINO and LiteRT."""

from __future__ import annotations

import numpy as np

from cpu_systems.task import Outputs, Task, in_batches, in_order


def our_inputs(batch):
    """Renames Hugging Face's inputs to ours, as int32."""
    return {
        "input_word_ids": batch["input_ids"].astype("int32"),
        "input_mask": batch["attention_mask"].astype("int32"),
        "input_type_ids": batch["token_type_ids"].astype("int32"),
    }


class OnnxRuntime:
    """A model optimized for Transformers, or our export.

    Args:
      folder: Folder of the model.
      threads: Number of threads.
      precision: "float32" or "int8".
      model: Name of the format.
    """

    def __init__(self, folder, threads, precision, model):
        import onnxruntime

        del precision  # that of the file
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._folder = folder / "checkpoint"
        self._session = onnxruntime.InferenceSession(
            folder / model / "model.onnx",
            options,
            providers=["CPUExecutionProvider"],
        )
        self._ours = "input_word_ids" in {
            x.name for x in self._session.get_inputs()
        }
        self.versions = {"onnxruntime": onnxruntime.__version__}

    def forward(self, work):
        """Prepares the last hidden states for ids `[batch, length]`."""
        from cpu_systems.torch_systems import huggingface_inputs

        run = self._bound(huggingface_inputs(work), "sequence_output")
        return Task(lambda: {"sequence_output": run()})

    def text(self, work):
        """Prepares the pooled outputs for texts."""
        from cpu_systems.torch_systems import TextBatches

        batches = TextBatches(self._folder, work)

        def encode(batch):
            return self._bound(batch, "pooled_output")()

        return Task(lambda: batches(encode))

    def _bound(self, inputs, output):
        """Returns a function that runs the session with bound inputs."""
        binding = self._session.io_binding()
        if self._ours:
            inputs = our_inputs(inputs)
        for name, value in inputs.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(value))
        binding.bind_output(output, "cpu")

        def run():
            self._session.run_with_iobinding(binding)
            return binding.get_outputs()[0].numpy()

        return run


class OpenVino:
    """Our exported encoder, with dynamic shapes.

    Args:
      folder: Folder of the model.
      threads: Number of threads.
      precision: Precision hint; with "int8", which is that of the file, other
        operations are computed in float32.
      model: Name of the format.
    """

    def __init__(self, folder, threads, precision, model):
        import openvino

        hint = {"bfloat16": "bf16"}.get(precision, "f32")
        self._core = openvino.Core()
        self._library = openvino
        self._path = folder / model / "model.xml"
        self._folder = folder / "checkpoint"
        self._settings = {
            "INFERENCE_PRECISION_HINT": hint,
            "INFERENCE_NUM_THREADS": threads,
        }
        if precision == "bfloat16" and "BF16" not in self._core.get_property(
            "CPU", "OPTIMIZATION_CAPABILITIES"
        ):
            raise RuntimeError("OpenVINO has no bfloat16 on this CPU")
        self.versions = {"openvino": openvino.__version__}

    def forward(self, work):
        """Prepares the last hidden states for ids `[batch, length]`."""
        request = self._compile("LATENCY").create_infer_request()
        names = ("input_word_ids", "input_mask", "input_type_ids")
        inputs = {name: work[name] for name in names}

        def run():
            outputs = request.infer(inputs, share_inputs=True)
            return {"sequence_output": outputs["sequence_output"]}

        return Task(run)

    def text(self, work):
        """Prepares the pooled outputs for texts; requests run in parallel."""
        from cpu_systems.torch_systems import TextBatches

        compiled = self._compile("THROUGHPUT")
        texts = TextBatches(self._folder, work)
        tokenizer = texts.tokenizer

        def run() -> Outputs:
            encoded = texts.encode()
            batches = in_batches(
                [len(row) for row in encoded["input_ids"]], work["batch"]
            )
            parts: list = [None] * len(batches)
            queue = self._library.AsyncInferQueue(compiled)

            def keep(request, number):
                output = request.get_tensor("pooled_output")
                parts[number] = output.data.copy()

            queue.set_callback(keep)
            for number, rows in enumerate(batches):
                batch = tokenizer.pad(
                    {k: [encoded[k][i] for i in rows] for k in encoded},
                    return_tensors="np",
                )
                queue.start_async(our_inputs(batch), number)
            queue.wait_all()
            return {"pooled_output": in_order(parts, batches)}

        return Task(run)

    def _compile(self, hint):
        settings = {**self._settings, "PERFORMANCE_HINT": hint}
        return self._core.compile_model(self._path, "CPU", settings)


class LiteRt:
    """The export of `albert export --kind=litert` for a single row.

    Args:
      folder: Folder of the model.
      threads: Number of threads.
      precision: Unused: it follows from the quantization.
      quantization: Quantization of the export.
    """

    def __init__(self, folder, threads, precision, quantization):
        import tensorflow as tf

        from albert_tf.models.encoder import AlbertEncoder

        del precision
        self._model = AlbertEncoder.from_pretrained(folder / "checkpoint")
        self._threads, self._quantization = threads, quantization
        self.versions = {"tensorflow": tf.__version__}

    def forward(self, work):
        """Prepares the last hidden states for ids, row by row."""
        from albert_tf.exporting.litert_conversion import (
            ConstantGraph,
            convert,
            signature_runner,
        )
        from albert_tf.runtimes.ids_program import encoder_program

        names = ("input_word_ids", "input_mask", "input_type_ids")
        batch, length = work[names[0]].shape
        program = encoder_program(self._model, seq_length=length)
        model = convert(ConstantGraph(program), self._quantization)
        encode = signature_runner(model, num_threads=self._threads)
        rows = [
            {name: work[name][i : i + 1] for name in names}
            for i in range(batch)
        ]

        def run() -> Outputs:
            states = [encode(**row)["sequence_output"] for row in rows]
            return {"sequence_output": np.concatenate(states)}

        return Task(run)
