"""Runs exports in optimum: optimum_models.py JOBS.json RESULTS.json.

A job has the name of a class of `optimum.onnxruntime`, a folder, the file of
the model in it, and texts. Its result is the class's outputs by name.
"""

import json
import sys

import optimum.onnxruntime
from transformers import AutoTokenizer


def main(jobs: str, results: str) -> None:
    """Runs each job."""
    with open(jobs, encoding="utf-8") as file:
        given = json.load(file)
    found = []
    for job in given:
        model_class = getattr(optimum.onnxruntime, job["class"])
        # `config.json`, the tokenizer and onnx/FILE in the folder.
        model = model_class.from_pretrained(
            job["folder"], file_name=job["file"], subfolder="onnx"
        )
        tokenizer = AutoTokenizer.from_pretrained(job["folder"])
        rows = tokenizer(*job["texts"], padding=True, return_tensors="np")
        outputs = model(**rows)
        found.append({"input_ids": rows["input_ids"].tolist()})
        found[-1] |= {name: x.tolist() for name, x in outputs.items()}
    with open(results, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
