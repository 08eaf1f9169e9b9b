"""Hugging Face's ALBERT, and the rate of PyTorch's matrix products."""

from __future__ import annotations

import contextlib
import pathlib
import time

import numpy as np
import torch

from cpu_systems.task import Outputs, Task, in_batches, in_order

_LEARNING_RATE = 1e-4


def _set_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(threads)


def huggingface_inputs(arrays) -> dict[str, np.ndarray]:
    """Renames our inputs to Hugging Face's, as int64."""
    return {
        "input_ids": arrays["input_word_ids"].astype("int64"),
        "attention_mask": arrays["input_mask"].astype("int64"),
        "token_type_ids": arrays["input_type_ids"].astype("int64"),
    }


class TextBatches:
    """Batches of texts by Hugging Face's fast tokenizer, padded dynamically.

    Args:
      folder: Folder of the checkpoint with its tokenizer.
      work: The workload: `texts`, optionally `pairs`, `batch` (its size) and
        `length` (maximum number of tokens).
    """

    def __init__(self, folder: pathlib.Path, work: dict):
        import transformers

        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        if not self._tokenizer.is_fast:
            raise RuntimeError("Hugging Face's tokenizer is not the fast one")
        self._work = work

    def __call__(self, function) -> Outputs:
        """Applies a function of int64 arrays that returns pooled outputs."""
        encoded = self.encode()
        batches = in_batches(
            [len(row) for row in encoded["input_ids"]], self._work["batch"]
        )
        parts = []
        for rows in batches:
            batch = self._tokenizer.pad(
                {k: [encoded[k][i] for i in rows] for k in encoded},
                return_tensors="np",
            )
            parts.append(function(dict(batch)))
        return {"pooled_output": in_order(parts, batches)}

    def encode(self):
        """Tokenizes all texts, without padding."""
        return self._tokenizer(
            self._work["texts"],
            self._work.get("pairs"),
            truncation=True,
            max_length=self._work["length"],
            return_token_type_ids=True,
            return_attention_mask=True,
        )

    @property
    def tokenizer(self):
        """Hugging Face's tokenizer."""
        return self._tokenizer


class HuggingFace:
    """`AlbertModel` with fused attention (SDPA), in inference mode.

    Args:
      folder: Folder of the model.
      threads: Number of threads.
      precision: Precision of the weights; in training that of autocast.
      form: "eager", "compile" or "dynamic" (int8 by dynamic quantization).
    """

    def __init__(self, folder, threads, precision, form):
        import transformers

        _set_threads(threads)
        self._library = transformers
        self._folder = folder / "checkpoint"
        self._precision, self._form = precision, form
        self.versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def forward(self, work):
        """Prepares the last hidden states for ids `[batch, length]`."""
        encoder = self._encoder(dynamic=False)
        inputs = _tensors(huggingface_inputs(work))

        def run():
            with torch.inference_mode():
                states = encoder(**inputs).last_hidden_state
                return {"sequence_output": states.float().numpy()}

        return Task(run)

    def text(self, work):
        """Prepares the pooled outputs for texts."""
        encoder = self._encoder(dynamic=True)
        batches = TextBatches(self._folder, work)

        def encode(batch):
            with torch.inference_mode():
                pooled = encoder(**_tensors(batch)).pooler_output
                return pooled.float().numpy()

        return Task(lambda: batches(encode))

    def step(self, work):
        """Prepares a pretraining step with logits of masked tokens only."""
        model = self._library.AlbertForPreTraining.from_pretrained(
            self._folder,
            attn_implementation="sdpa",
            classifier_dropout_prob=0.0,  # as in albert_tf
        ).train()
        inputs = _tensors(huggingface_inputs(work))
        positions, ids, order = (
            torch.from_numpy(work[name]).long()
            for name in (
                "masked_lm_positions",
                "masked_lm_ids",
                "sentence_order_labels",
            )
        )
        rows = torch.arange(len(order))[:, None]
        cross_entropy = torch.nn.functional.cross_entropy
        encoder = self._compiled(model.albert, dynamic=False)

        def losses():
            outputs = encoder(**inputs)
            states = outputs.last_hidden_state[rows, positions]
            logits = model.predictions(states)
            mlm = cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
            pooled = model.sop_classifier(outputs.pooler_output)
            return mlm, cross_entropy(pooled.float(), order)

        update = self._update(model)

        def run():
            with self._autocast():
                mlm, sop = losses()
            norm = update(mlm + sop)
            return {
                "mlm_loss": mlm.detach().numpy(),
                "sop_loss": sop.detach().numpy(),
                "gradient_norm": norm.numpy(),
            }

        return Task(run)

    def finetune(self, work):
        """Prepares an epoch of fine-tuning with dynamic padding."""
        library = self._library
        folder = self._folder.parent / "classifier"
        model = library.AlbertForSequenceClassification.from_pretrained(
            folder, attn_implementation="sdpa", classifier_dropout_prob=0.0
        ).train()
        texts = TextBatches(self._folder, work)
        collate = library.DataCollatorWithPadding(texts.tokenizer)
        update = self._update(model)

        def check():
            first = collate(
                [
                    {k: v for k, v in example.items() if k != "labels"}
                    for example in examples[:8]
                ]
            )
            with torch.inference_mode(), self._autocast():
                logits = model.eval()(**first).logits
            model.train()
            return {"logits": logits.float().numpy()}

        rows = texts.encode()
        examples = [
            {"labels": label, **{k: rows[k][i] for k in rows}}
            for i, label in enumerate(work["labels"])
        ]
        loader = torch.utils.data.DataLoader(
            examples,
            batch_size=work["batch"],
            shuffle=True,
            drop_last=True,
            collate_fn=collate,
        )

        def run():
            for batch in loader:
                with self._autocast():
                    loss = model(**batch).loss
                update(loss)
            return {"loss": loss.detach().numpy()}

        return Task(run, check)

    def _encoder(self, dynamic):
        model = self._library.AlbertModel.from_pretrained(
            self._folder, attn_implementation="sdpa"
        ).eval()
        if self._precision == "bfloat16":
            model = model.to(torch.bfloat16)
        if self._form == "dynamic":
            model = torch.ao.quantization.quantize_dynamic(
                model, {torch.nn.Linear}, dtype=torch.qint8
            )
        return self._compiled(model, dynamic)

    def _compiled(self, model, dynamic):
        if self._form != "compile":
            return model
        return torch.compile(model, dynamic=dynamic)

    def _autocast(self):
        if self._precision == "bfloat16":
            return torch.autocast("cpu", torch.bfloat16)
        return contextlib.nullcontext()

    @staticmethod
    def _update(model):
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=_LEARNING_RATE, weight_decay=0.01, fused=True
        )

        def update(loss):
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return norm.detach()

        return update


class ProductRate:
    """Operations per second of large square products."""

    def __init__(self, folder, threads, precision):
        del folder
        _set_threads(threads)
        self._dtype = getattr(torch, precision)
        self.versions = {"torch": torch.__version__}

    def rate(self, work):
        """Prepares the best rate of five products."""
        size = work["size"]
        left, right = (torch.randn(size, size).to(self._dtype) for _ in "ab")

        def run():
            best = 0.0
            for _ in range(5):
                start = time.perf_counter()
                torch.mm(left, right)
                seconds = time.perf_counter() - start
                best = max(best, 2.0 * size**3 / seconds)
            return {"rate": np.asarray(best)}

        return Task(run)


def _tensors(arrays):
    return {name: torch.from_numpy(value) for name, value in arrays.items()}
