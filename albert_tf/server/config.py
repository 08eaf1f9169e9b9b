"""Settings of the HTTP server."""

from __future__ import annotations

import dataclasses

from albert_tf.finetuning.config import TaskModuleConfig
from albert_tf.runtimes.config import Runtime, runtime_setting
from albert_tf.settings import described, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServeConfig(TaskModuleConfig):
    """The model, the address and the limits of a server."""

    model: str = dataclasses.field(
        metadata=described(
            "Folder of a fine-tuning run or of its model, or a pretrained "
            "model in any supported format, such as albert_tiny_en, which is "
            "part of the package. Required."
        )
    )
    host: str = setting(
        "127.0.0.1",
        "Address to listen on. 0.0.0.0 accepts connections from everywhere.",
    )
    port: int = setting(
        8000, "Port. 0 chooses one that is free.", bounds="[0, 65535]"
    )
    runtime: Runtime = runtime_setting("auto")
    max_batch_size: int = setting(
        32,
        "Number of texts that are computed together. Texts of requests that "
        "wait at the same time share a batch.",
        bounds="[1, 65536]",
    )
    max_texts: int = setting(
        64,
        "Number of texts that a request may have, and of options that a "
        "question may have. /v1/embeddings takes 2,048 texts, as OpenAI's.",
        bounds="[1, 65536]",
    )
    max_characters: int = setting(
        20_000, "Length of a text in characters.", bounds="[1, 10000000]"
    )
    max_body_bytes: int = setting(
        1 << 20, "Size of the body of a request.", bounds="[1024, 1073741824]"
    )
    max_waiting: int = setting(
        512,
        "Number of texts that may wait. Further requests get status 503.",
        bounds="[1, 1048576]",
    )
