"""What users get wrong: one line, exit status 2, and nothing written."""

import importlib.util
import json
import os
import pathlib
import shlex
import stat

import pytest

from albert_tf.cli.commands import COMMANDS
from albert_tf.cli.main import main
from albert_tf.data.create_data import create_pretraining_data
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.exporting.config import KINDS
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer


@pytest.fixture(scope="module")
def folder(folder, python_lines):
    """The module's folder, with text, records, and files of no use."""
    (folder / "text.txt").write_text("\n".join(python_lines), "utf-8")
    (folder / "wide.txt").write_text("\n".join(python_lines), "utf-16-le")
    (folder / "empty.txt").write_text("")
    (folder / "config.json").write_text("{not json")
    (folder / "scored").mkdir()
    line = {"step": 5, "time": 1.0, "split": "eval", "values": {"loss": 2}}
    (folder / "scored" / "metrics.jsonl").write_text(f"{json.dumps(line)}\n")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "empty").touch()
    (folder / "loop.flags").write_text("# a\n--flagfile=loop.flags\n")
    (folder / "one.flags").write_text("--flagfile=./two.flags\n")
    (folder / "two.flags").write_text("--flagfile=one.flags\n")
    (folder / "wide.flags").write_text("--flagfile=empty\n" * 2000)
    _write_without_mask(
        (folder / "spiece.model").read_bytes(), folder / "no_mask.model"
    )
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    (folder / "train.csv").write_text("text,label\na,good\nb,bad\n")
    os.link(folder / "train.csv", folder / "hard")
    (folder / "link").symlink_to("train.csv")
    (folder / "device").symlink_to("/dev/null")
    (folder / "broken.csv").write_text("text,label\na,good\nb,bad,worse\n")
    create_pretraining_data(
        PretrainingDataConfig(
            input=str(folder / "text.txt"),
            output=folder / "data",
            tokenizer=AlbertTokenizer.from_file(folder / "spiece.model"),
            max_seq_length=32,
            max_predictions_per_seq=5,
        )
    )
    return folder


def _write_without_mask(model: bytes, path: pathlib.Path):
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    (piece,) = (p for p in proto.pieces if p.piece == "[MASK]")
    piece.piece = "[MUSK]"
    path.write_bytes(proto.SerializeToString())


VOCAB = "train-vocab --output=new --input=text.txt"
CREATE = "create-data --output=new --spm_model_file=spiece.model"
PRETRAIN = (
    "pretrain --output=new --config=albert_mini --num_train_steps=1 "
    "--num_warmup_steps=0 "
    "--train_batch_size=2"
)
RECORDS = f"{PRETRAIN} --input=data"
XLSX = "x.xlsx: no format has the extension .xlsx; choose .csv"
INITIALIZED = RECORDS.replace("--config=albert_mini ", "")
FITS = "--config_overrides=vocab_size=600"
FINETUNE = (
    "finetune --output=new --init_from=start --max_seq_length=32 --task=text "
    "--train=train.csv --dev=train.csv"
)
NAMED = "finetune --output=new --init_from=start --data=absent"
PREDICT = "predict --model=start"
LITERT = "export --kind=litert --model=start --output=new"
SIMILARITY = "analyze similarity start --input=train.csv"
LONG = "n" * 300

# Command -> (flags, part of the message). The longer keys stand for what they
# begin with, so that each row has what is wrong alone.
BAD_INPUT = {
    "train-vocab": [
        ("--output=spiece --input=spiece.model", "would destroy the input"),
        ("", "--input and --output are required"),
        ("--output=x --input=absent.txt", "absent.txt: no such file"),
        ("--output=x --input=text.txt,,text.txt", "has an empty path"),
        ("--output= --input=text.txt", "output='' must not be empty"),
        ("--output=. --input=text.txt", "must be a prefix of file names"),
        ("--output=spiece --input=text.txt", "spiece.model exists; choose"),
        ("--output=x --input=text.txt --report=text.txt", "would destroy the"),
        ("--output=x --input=text.txt --report=no/r.json", "no does not exist"),
        ("--output=x --input=text.txt --report=start", "start: is a folder"),
        ("--output=x --input=text.txt --report=train.csv", "train.csv exists"),
        (
            "--output=x --input=text.txt --report=./x.vocab",
            "--report=./x.vocab is a file of the vocabulary",
        ),
        (
            "--output=spiece --input=a=1:text.txt,b=1:train.csv",
            "spiece.model exists; choose",
        ),
    ],
    VOCAB: [
        ("--vocab_size=90000", "90000"),
        ("--vocab_size=2147483648", "at most 2,147,483,647"),
        ("--vocab_size=0", "vocab_size=0 must be at least 13"),
        ("--vocab_size=many", "--vocab_size=many must be an integer"),
        ("--character_coverage=nan", "must be finite and in [0.98, 1]"),
        ("--text_format=xml", "--text_format=xml must be one of lines, prose"),
        ("--language=English", "language='English' must be an ISO 639 code"),
    ],
    "create-data": [
        ("--spm_model_file=x", "--input and --output are required"),
        ("--random_seed=1", "--random_seed is now called --seed"),
        (
            "--input=text.txt --output=new --spm_model_file=no_mask.model",
            "[MASK]",
        ),
        ("--input=text.txt --output=new --spm_model_file=text.txt", "text.txt"),
        (
            "--input=text.txt --output=new --spm_model_file=vocab.txt "
            "--digit_comma=google",
            "digit_comma='google' is not a setting of AlbertWordPieceTokenizer",
        ),
        (
            "--input=text.txt --spm_model_file=spiece.model --output=data",
            "data",
        ),
    ],
    f"{CREATE} --output=data --overwrite": [
        ("--input=data/manifest.json", "would destroy the input"),
        ("--input=data/*.tfrecord", "would destroy the input"),
    ],
    CREATE: [
        ("--input=absent.txt", "absent.txt"),
        ("--input=empty.txt", "empty.txt"),
        ("--input=binary", "binary"),
        ("--input=text.txt --num_shards=0", "num_shards=0 must be in [1"),
        ("--input=text.txt --heldout_fraction=nan", "must be finite and in"),
        ("--input=text.txt --output=", "output='' must not be empty"),
        (
            "--input=text.txt --output=gs://b/data",
            "gs://b/data: not a local fo",
        ),
        ("--input=text.txt --pack --masking=static", "pack=True must be False"),
        (f"--input=text.txt --output={LONG}", "File name too long"),
    ],
    "pretrain": [
        ("--output=x", "--input is required"),
        ("--lerning_rate=1", "--lerning_rate (did you mean --learning_rate?)"),
        ("--recipe=none", "unknown recipe 'none'"),
        (
            "--flagfile=absent",
            "--flagfile=absent: cannot be read: No such file",
        ),
        (
            "--flagfile=binary",
            "--flagfile=binary: byte 129 of the file is not UTF-8",
        ),
        ("--flagfile=/dev/zero", "a pipe, device or socket"),
        ("--flagfile=loop.flags", "--flagfile=loop.flags: includes itself"),
        (
            "--flagfile=one.flags",
            "includes itself (one.flags -> ./two.flags -> one.flags)",
        ),
        ("--flagfile=wide.flags", "nested at most 16 deep"),
        ("--flagfile=", "--flagfile= must not be empty"),
        ("--flagfile", "--flagfile= must not be empty"),
        ("--input", "no value for --input"),
    ],
    PRETRAIN: [
        ("--input=absent", "absent"),
        ("--input=text.txt", "text.txt"),
        ("--input=", "input='' must not be empty"),
        ("--input=xy://a", "File system scheme 'xy' not implemented"),
    ],
    RECORDS: [
        ("--config=config.json", "not JSON"),
        ("--config=albert_hug", "albert_hug"),
        ("", "600 pieces"),
        (
            "--config_overrides=vocab_size=600,max_position_embeddings=16",
            "32 tokens",
        ),
        ("--config_overrides=vocab=600", "vocab=600"),
        ("--config_overrides=layer_norm_eps=Infinity", "must be finite and in"),
        ("--config_overrides=hidden_size=[]", "hidden_size=[] must be an int"),
        ("--start_warmup_step=-1", "start_warmup_step=-1 must be at least 0"),
        ("--start_warmup_step=1", "num_warmup_steps=0 must be lower: the warm"),
        ("--num_warmup_steps=1", "num_warmup_steps=1 must be lower: the warm"),
        ("--learning_rate=1e308", "must be in (0, 1000]"),
        ("--weight_decay=inf", "weight_decay=inf must be finite and in"),
        ("--max_loss=nan", "max_loss=nan must be finite"),
        ("--optimizer=sgd", "--optimizer=sgd must be one of lamb, adamw"),
        ("--learning_rate=0", "learning_rate=0.0 must be in (0, 1000]"),
        ("--train_batch_size=0", "train_batch_size=0 must be"),
        ("--num_warmup_steps=-1", "num_warmup_steps=-1 must be"),
        ("--init_from=start", "vocab_size=600, not 4000"),
        ("--output=", "output='' must not be empty"),
        (f"{FITS} --objective=bert", "='bert' must be one of mlm"),
        (f"{FITS} --output=text.txt", "text.txt is not a folder"),
        (f"{FITS} --output=device", "device is not a folder"),
        (f"{FITS} --output=data", "data is not the folder of a run"),
        ("--input=data --tpu=", "tpu='' must not be empty"),
    ],
    INITIALIZED: [
        ("--init_from=absent", "no such file or folder: 'absent'"),
        (
            "--init_from=start --config_overrides=hidden_size=16",
            "hidden_size=64, not 16",
        ),
    ],
    "finetune": [
        ("--task=text", "--output and --init_from are required"),
        (
            "--task=mnli --init_from=x --output=y --text_column=a --data=d",
            "--text_column requires --task=text",
        ),
        ("--task=text --init_from=x --output=y", "--data or --train"),
        ("--predict_batch_size=1", "is now called --eval_batch_size"),
    ],
    FINETUNE: [
        ("--train=broken.csv", "broken.csv:3: 3 col"),
        ("--train=none.csv", "none.csv"),
        ("--data=.", "either --train or --data"),
        ("--doc_stride=3", "has no such setting"),
        ("--num_train_epochs=3 --num_train_steps=3", "give either --num"),
        (
            "--num_train_steps=4 --num_warmup_steps=4",
            "the warm-up would end at step 4, but the run has 4 steps; set",
        ),
        (
            "--num_train_epochs=4 --num_warmup_steps=200",
            "the warm-up would end at step 200, but the run has 1 step; set",
        ),
        (
            "--num_warmup_steps=2 --warmup_proportion=0.1",
            "give either --num_warmup_steps or --warmup_proportion",
        ),
        ("--task=sst2", "train.csv"),
        ("--head=pair_features", "head=pair_features needs two texts, but"),
        ("--head=joint", "head=joint: tasks of the type text_classification"),
        ("--task=embedding", "train.csv: the header has none of the columns"),
        (
            "--task=embedding --train=text.txt --dev=text.txt",
            "cannot be scored",
        ),
        ("--task=embedding --regression", "--regression requires --task=text"),
        ("--task=sst2 --classes=a,b", "--classes requires --task=text"),
        ("--metrics=acuracy", "metric 'acuracy': must be one of accuracy, f1"),
        ("--output=runs[1]", "TensorFlow cannot read checkpoints below"),
        ("--class_weights=equal", "must be balanced, LABEL=WEIGHT,..."),
        ("--class_weights=best=2", "'best' is not one of the labels bad, good"),
        ("--temperature=0", "temperature=0.0 must be in [0.001, 100]"),
        ("--temperature=1", "temperature=1.0: tasks of the type text_class"),
        ("--label_smoothing=1", "label_smoothing=1.0 must be in [0, 1)"),
        ("--max_seq_length=65", "takes at most 64 tokens"),
        ("--from=tfds", "does not support --task=text"),
        (
            "--from=tfds --task=dream --max_qa_length=8",
            "from='tfds' does not have task='dream'",
        ),
        ("--num_train_epochs=nan", "must be finite and in (0, 1000000]"),
        ("--runs=0", "runs=0 must be in [1, 1000]"),
        ("--classes=a,,b", "classes='' must not be empty"),
        ("--output=", "output='' must not be empty"),
        ("--output=device", "device"),
        ("--output=gs://bucket/run", "output=gs://bucket/run"),
        ("--tpu=name", "tpu='name': fine-tuning writes to a local"),
        ("--init_from=absent", "no such file or folder: 'absent'"),
        ("--gradient_accumulation_steps=3", "batch size 32 must be a multiple"),
    ],
    NAMED: [
        (
            "--recipe=finetune/squad2.0 --num_train_steps=20",
            "num_warmup_steps=814 must be lower",
        ),
        ("--task=squad2.0 --n_best=0", "n_best=0 must be in [1, 10000]"),
        ("--task=squad2.0 --max_answer_length=0", "max_answer_length=0 must"),
        ("--task=squad2.0 --start_n_top=2147483648", "must be in [1, 1024]"),
        ("--task=race --max_qa_length=-1", "max_qa_length=-1 must be in"),
        ("--task=squad2.0 --head=v1", "requires head=joint"),
        ("--task=squad1.1 --head=cls", "head=cls: tasks of the type question"),
        ("--task=embedding --head=cls", "head=cls: the task embedding has no"),
    ],
    "finetune --output=new --init_from=start --task=text --train=train.csv": [
        (
            "--early_stopping_patience=2",
            "early_stopping_patience=2 needs a development set; give --dev",
        ),
    ],
    "predict": [
        ("", "--model is required"),
        ("--model=absent --text=a", "absent: no such file or folder; give"),
    ],
    PREDICT: [
        ("--question=x", "--question requires --context"),
        ("--pair=x", "--pair requires --text"),
        ("--score", "--score requires --input"),
        ("--text=a --metrics=f1", "--metrics requires --score"),
        ("--data=x", "--data requires --glue_sub"),
        ("--id_column=x", "requires --input"),
        ("--from=tfds", "requires --glue_subm"),
        ("--text=a", "no fine-tuned model"),
        ("--text=a --input=b", "either --text or --input"),
        ("--text=a --from=tfds", "requires --glue_s"),
        ("--glue_submission=new", "requires --data or --from"),
        (
            "--glue_submission=new --data=data --output=x.tsv",
            "--output is not supported with --glue_submission",
        ),
        (
            "--predict_batch_size=1",
            "--predict_batch_size is now called --eval_batch_size",
        ),
        ("--text=a --null_threshold=nan", "null_threshold=nan must be finite"),
        ("--text=a --eval_batch_size=0", "eval_batch_size=0 must be in [1"),
        ("--text=a --output=", "output='' must not be empty"),
        ("--text=a --output=x.xlsx", XLSX),
        ("--input=train.csv --output=train.csv", "would destroy the input"),
        ("--input=train.csv --output=data/../hard", "would destroy the input"),
        ("--input=train.csv --output=link", "would destroy the input"),
        ("--text=a --output=start/config.json", "would destroy the input"),
    ],
    "evaluate": [
        ("--input=x", "one of --run, --checkpoints and --model"),
        ("--run=start --model=start", "either --run or --model"),
        ("--model=start --input=train.csv", "no fine-tuned model"),
        ("--run=start --from=tfds", "--from requires --model"),
        ("--run=absent --input=absent", "absent"),
        ("--run= --input=data", "run='' must not be empty"),
        (
            "--run=albert_tiny_en --input=data --split=train",
            "its vocabulary is",
        ),
        ("--run=start --input=data --max_eval_steps=-1", "must be at least 0"),
        (
            "--run=start --input=data --checkpoint=best",
            "start: a saved model, not a pretraining run, and has no",
        ),
    ],
    "convert": [
        ("", "--input and --output are required"),
        ("--input=start --output=start --overwrite", "would destroy the input"),
        ("--input=start --output=. --overwrite", "would destroy the input"),
        ("--input=start --output=data", "data exists"),
        ("--input=start --output=", "output='' must not be empty"),
        ("--input= --output=new", "input='' must not be empty"),
        ("--input=absent --output=new", "absent"),
        ("--input=start --output=new --spm_model_file=absent", "absent"),
        (
            "--input=albert_tiny_en --spm_model_file=start/spiece.model "
            "--output=start --overwrite",
            "destroy the input start/spiece.model",
        ),
        ("--input=start --output=new --overwrite=maybe", "must be true or f"),
        ("--input=start --output=new --nooverwrite=1", "does not take an arg"),
        (f"--input=start --output={LONG}", "File name too long"),
        ("--input=device --output=new", "device"),
    ],
    "export": [
        ("", "--model is required, except with --check"),
        ("--model=data --output=new", "data"),
        ("--model=absent --output=new", "absent"),
        ("--model=start --output=", "output='' must not be empty"),
        ("--model=start --output=start --overwrite", "would destroy the input"),
        ("--model=start --output=new --seq_length=0", "must be at least 1"),
        *(
            (f"--model=start --output=data --kind={kind}", "data exists")
            for kind in KINDS
            if kind not in ("task", "web")
        ),
        ("--check=absent", "absent: no export.json; expected the folder of"),
        ("--check=start --output=new", "--output"),
        ("--check=start --kind=onnx", "--kind is for exporting"),
        ("--model=start", "--output is required"),
        ("--output=new", "--model is required"),
        (
            "--kind=task --model=start --output=new",
            "start: no fine-tuned model (no task.json)",
        ),
    ],
    "export --model=start --output=new": [
        (
            "--seq_length=16",
            "seq_length is not supported by kind=encoder (only by preprocessor",
        ),
        (
            "--kind=preprocessor --packed=false",
            "packed is not supported by kind=preprocessor (only by encoder",
        ),
        ("--kind=task --quantization=int8", "by kind=task (only by litert"),
        ("--kind=litert --packed", "by kind=litert (only by encoder"),
        ("--kind=text_encoder --resizable", "text_encoder (only by litert"),
        ("--kind=preprocessor --seq_length=65", "=65 must be at most 64"),
        ("--kind=preprocessor --seq_length=2", "=2 must be at least 3"),
        ("--kind=text_encoder --seq_length=65", "=65 must be from 3"),
        ("--kind=text_encoder --seq_length=2", "=2 must be from 3, to hold"),
        ("--kind=litert --seq_length=1", "=1 must be at least 2, to hold"),
        ("--kind=onnx --seq_length=65", "at least 2, to hold [CLS] and [SEP]"),
        ("--kind=onnx --quantization=int8", "use quantization=dynamic"),
        ("--kind=openvino --quantization=int8", "use quantization=dynamic"),
        ("--kind=openvino --resizable", "is not supported by kind=openvino"),
        ("--kind=onnx --calibration_input=text.txt", "is not supported by"),
    ],
    "export --kind=onnx --layout=huggingface --model=start --output=new": [
        ("--quantization=float16", "float16 is not supported by layout="),
        ("--quantization=dynamic", "dynamic is not supported by layout="),
        ("--packed", "packed=True is not supported by layout=huggingface"),
        ("--kind=litert", "layout is not supported by kind=litert"),
        ("--layout=keras", "--layout=keras must be one of flat, huggingface"),
    ],
    "export --kind=web --model=start --output=new": [
        ("--web_packages=absent", "absent/@huggingface/tokenizers/dist/"),
        ("--quantization=dynamic", "quantization is not supported by kind=web"),
        ("--kind=onnx --web_packages=.", "web_packages is not supported by"),
    ],
    LITERT: [
        ("--quantization=int8", "int8 requires calibration_input"),
        (
            "--quantization=int8 --calibration_input=absent.txt",
            "absent.txt: no such file",
        ),
        ("--calibration_input=text.txt", "does not support calibration_input"),
        ("--seq_length=65", "seq_length=65 must be at least 2"),
        ("--quantization=int4", "quantization=int4 must be one of"),
    ],
    "serve": [
        ("", "--model is required"),
        ("--model=absent", "absent"),
        ("--model=data", "data"),
        ("--model=start --port=65536", "port=65536 must be in [0, 65535]"),
        ("--model=start --host=256.0.0.1", "--host=256.0.0.1"),
        ("--model=start --max_batch_size=0", "max_batch_size=0 must be in"),
        ("--model=start --max_texts=0", "max_texts=0 must be in [1"),
        ("--model=start --max_characters=0", "max_characters=0 must be in"),
        ("--model=start --max_body_bytes=1", "max_body_bytes=1 must be in"),
        ("--model=start --max_waiting=0", "max_waiting=0 must be in [1"),
        ("--model=start data", "unexpected argument 'data'"),
    ],
    "analyze": [
        ("", "nothing to analyze; use `albert analyze parameters"),
        ("parameters albert_huge", "'albert_huge'"),
        (
            "parameters start/config.json --output=start/config.json",
            "would destroy the input",
        ),
        (
            "memory --train_batch_size=0",
            "train_batch_size=0 must be at least 1",
        ),
        ("run data --output=curves.png", "data"),
        ("data data --output=absent/plot.png", "absent does not exist"),
        ("run scored --output=scored/metrics.jsonl", "would destroy the input"),
        ("run data --output=", "output='' must not be empty"),
        ("data", "cannot analyze 'data'"),
        ("data absent", "absent"),
        ("data text.txt", "not a complete TFRecord file"),
        ("data data --split=heldout", "no split 'heldout'"),
        ("data data --max_records=-1", "max_records=-1 must be at least 0"),
        ("data data --examples=99999", "examples=99999 must be in [0"),
        ("data data --spm_model_file=spiece.model", "their own tokenizer"),
        ("data data --output=data/manifest.json", "would destroy the input"),
        ("data data --output=data.word", "output data.word"),
        ("similarity", "cannot analyze 'similarity'"),
        ("similarity start --input=absent.txt", "absent.txt"),
        (
            "similarity start --input=text.txt --output=text.txt",
            "not the name of a picture",
        ),
    ],
    SIMILARITY: [
        ("--config_overrides=hidden_size=7", "hidden_size=7"),
        ("--config_overrides=vocab_size=9", "vocab_size is 9"),
    ],
    "analyze memory": [
        ("--output=plot.png", "--output is not supported by `analyze memory`"),
        ("albert_base_v2 --max_seq_length=513", "exceeds the max_position_emb"),
    ],
    "analyze attention": [
        ("start start --text=a", "cannot analyze 'attention "),
        ("start", "needs --text"),
        ("start --text=", "must not be empty"),
        ("start --text=a --layers=2", "layers=2 must be numbers from 1"),
        ("start --text=a --heads=x", "--heads=x must be numbers"),
        ("absent --text=a", "absent"),
    ],
    "demo": [
        ("extra", "unexpected argument 'extra'"),
        ("--output=", "output='' must not be empty"),
        ("--input=absent.txt --output=new", "absent.txt"),
        ("--seed=x", "--seed=x must be an integer"),
        # Each of the three phases has a step.
        ("--num_train_steps=5", "num_train_steps=5 must be at least 6"),
    ],
    "convert-data": [
        ("--output=new", "--input is required"),
        ("--input=absent --output=new", "absent"),
        ("--input=data --output=data", "data exists; choose another"),
        ("--input=data --output=new --num_epochs=0", "num_epochs=0 must be"),
        ("--input=data --output=new --seed=-1", "seed=-1 must be in [0"),
    ],
    "fill-mask": [
        ("--text=x", "--model is required"),
        ("--model=absent --text=[MASK]", "absent"),
        ("--model=start --text=word", "the text 'word' has no [MASK]"),
        ("--model=start --text=[MASK] --input=text.txt", "either --text or"),
        ("--model=start --input=absent.txt", "absent.txt"),
        ("--model=start --input=binary", "binary:1: the text"),
        ("--model=start --text=[MASK] --top_k=0", "top_k=0 must be in [1"),
        ("--model=start --text=[MASK] --output=x.xlsx", XLSX),
        ("--model=start --text=[MASK] --top_k=999", "must be in [1, 600]"),
        ("--model=start --input=text.txt --output=text.txt", "would destroy"),
    ],
    "embed": [
        ("--model=absent --text=x", "absent"),
        ("--model=start --pair=x", "--pair requires --text"),
        ("--model=start --text=x --pair=y --output=x.npy", "as text, not as"),
        ("--model=start --input=empty", "empty has no text"),
        ("--model=start --input=wide.txt", "wide.txt: UTF-16, not text in"),
        ("--model=start --text=x --pooling=max", "must be one of mean, weigh"),
        ("--model=start --text=x --output=new/x.npy", "new"),
        ("--model=start --text=x --output=x.xlsx", XLSX),
        ("--model=start --input=text.txt --output=text.txt", "would destroy"),
    ],
    "sentence-order": [
        ("--model=start --text=x", "--text and --pair require each other"),
        ("--model=start --pair=x", "--text and --pair require each other"),
        ("--model=start --input=empty.csv", "empty.csv"),
        ("--model=start --text=x --pair=y --output=x.xlsx", XLSX),
        ("--model=start --input=train.csv", "train.csv:1: expected two texts"),
    ],
    "ablate": [
        ("3", "--output is required"),
        ("--output=x", "name at least one study"),
        ("7 --output=x", "study='7' must be one of embedding_size, sharing"),
        ("3 --output=x --scale=weeks", "must be one of smoke, minutes"),
        ("3 --output=x --seeds=0", "seeds=0 must be in [1, 100]"),
        ("3 --output=x --input=absent.txt", "absent.txt"),
        ("3 --output=x --train=train.csv", "given together with dev"),
        ("3 --output=x --train=absent.csv --dev=train.csv", "absent.csv"),
        ("3 --output=text.txt", "text.txt"),
    ],
    "completion": [
        ("", "name one shell: bash, zsh"),
        ("ksh", "name one shell: bash, zsh"),
        ("bash --output=x", "unknown flag --output"),
    ],
}


def test_every_command_has_bad_input():
    assert {key.split()[0] for key in BAD_INPUT} == set(COMMANDS)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{command} {flags}", message)
        for command, rows in BAD_INPUT.items()
        for flags, message in rows
    ],
)
def test_one_line_and_status_2(folder, command, message, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    before = contents(folder)
    assert main(shlex.split(command)) == 2
    output = capfd.readouterr()
    assert message in output.err
    assert output.err.startswith(f"albert: {command.split()[0]}: ")
    assert output.err.count("\n") == 1, output.err
    assert output.out == ""
    assert contents(folder) == before


def contents(folder):
    """Returns what is in a folder: paths, types and times of files."""
    found = {path: path.lstat() for path in sorted(folder.rglob("*"))}
    return [
        (path, x.st_mode, x.st_ino)
        + (() if stat.S_ISDIR(x.st_mode) else (x.st_mtime_ns, x.st_size))
        for path, x in found.items()
    ]


PACKAGES = {"tfds": "tensorflow_datasets", "huggingface": "datasets"}


@pytest.mark.parametrize("source", PACKAGES)
def test_library_that_is_not_installed(folder, source, capfd):
    if importlib.util.find_spec(PACKAGES[source]):
        pytest.skip(f"{PACKAGES[source]} is installed")
    command = f"finetune --task=sst2 --init_from=start --from={source}"
    assert main([*command.split(), "--output=new"]) == 2
    error = capfd.readouterr().err
    assert f"need {PACKAGES[source]}, which cannot be imported" in error
