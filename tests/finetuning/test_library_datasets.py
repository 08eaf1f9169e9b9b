import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.data import read_examples
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.library_datasets import NamedSplit
from albert_tf.finetuning.registry import known_task, make_task_type

PACKAGES = {"tfds": "tensorflow_datasets", "huggingface": "datasets"}
NLI = ["entailment", "neutral", "contradiction"]
# What `--data` needs before a library is asked.
ANY = {"task": "rte", "split": "train"}
QUESTIONS = [
    {
        "id": name,
        "title": "Bach",
        "context": "Bach was born in Eisenach.",
        "question": "Where?",
        "answers": {"text": texts, "answer_start": starts},
        "plausible_answers": {"text": [], "answer_start": []},
        "is_impossible": not texts,
    }
    for name, texts, starts in (("5a", ["Eisenach"], [17]), ("5b", [], []))
]
CARD = """---
configs:
- config_name: mnli
  data_files:
  - split: train
    path: mnli/train-*
  - split: validation_matched
    path: mnli/validation_matched-*
  - split: validation_mismatched
    path: mnli/validation_mismatched-*
---
"""


def read(source, labelled=True, **named):
    split = NamedSplit(source=source, **named)
    assert all(file.is_file() for file in split.files)
    task_type = make_task_type(known_task(split.task))
    return list(
        read_examples(task_type, [split], bad=BadExamples(), labelled=labelled)
    )


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Hugging Face's library, which then keeps its files in a new folder."""
    library = pytest.importorskip("datasets")
    cache = str(tmp_path_factory.mktemp("cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.config, "HF_DATASETS_CACHE", cache)
        yield library


def labelled_set(datasets, fields, labels, names):
    rows = {
        field: [f"{field} {n}" for n, _ in enumerate(labels)]
        for field in fields
    }
    rows |= {"label": labels, "idx": list(range(len(labels)))}
    return datasets.Dataset.from_dict(rows).cast_column(
        "label", datasets.ClassLabel(names=names)
    )


@pytest.mark.peer
def test_saved_splits_of_hugging_face(datasets, tmp_path):
    make = {"fields": ["sentence"], "names": ["negative", "positive"]}
    splits = datasets.DatasetDict(
        train=labelled_set(datasets, labels=[0, 1, 1], **make),
        validation=labelled_set(datasets, labels=[1, 0], **make),
        test=labelled_set(datasets, labels=[-1], **make),
    )
    splits.save_to_disk(str(tmp_path / "saved" / "sst2"))
    for folder in (tmp_path / "saved", tmp_path / "saved" / "sst2"):
        named = {"task": "sst2", "data": folder}
        found = read("huggingface", split="dev", **named)
        assert [(x.id, x.label) for x in found] == [("0", "1"), ("1", "0")]
        assert found[0].text == "sentence 0"
        assert "split validation, row 0" in found[0].location
        [hidden] = read("huggingface", split="test", labelled=False, **named)
        assert hidden.label is None
        with pytest.raises(InputError, match="split test: its labels are not"):
            read("huggingface", split="test", **named)
        with pytest.raises(InputError, match="has only train, validation, te"):
            read("huggingface", split="dev_matched", **named)


@pytest.mark.peer
def test_folder_of_the_hugging_face_hub(datasets, tmp_path):
    make = {"fields": ["premise", "hypothesis"], "names": NLI}
    (tmp_path / "mnli").mkdir()
    (tmp_path / "README.md").write_text(CARD)
    for split, labels in (
        ("train", [0, 1, 2, 2]),
        ("validation_matched", [1]),
        ("validation_mismatched", [2]),
    ):
        labelled_set(datasets, labels=labels, **make).to_parquet(
            tmp_path / "mnli" / f"{split}-00000-of-00001.parquet"
        )

    def labels(split):
        found = read("huggingface", task="mnli", split=split, data=tmp_path)
        return [example.label for example in found]

    assert labels("train") == [NLI[0], NLI[1], NLI[2], NLI[2]]
    assert labels("train[:50%]") == NLI[:2]
    assert labels("dev") == labels("validation_matched") == ["neutral"]
    assert labels("dev_mismatched") == ["contradiction"]
    with pytest.raises(
        InputError, match=r'split test_matched.*Unknown split "'
    ):
        labels("test")


@pytest.mark.peer
def test_tables_and_questions_of_hugging_face(datasets, tmp_path):
    (tmp_path / "rte").mkdir()
    table = "sentence1,sentence2,label,idx\na,b,1,0\nc,d,0,1\n"
    (tmp_path / "rte" / "train.csv").write_text(table)
    found = read("huggingface", task="rte", split="train", data=tmp_path)
    assert [x.label for x in found] == ["not_entailment", "entailment"]
    # As the hub has SQuAD: without `is_impossible`.
    names = ("id", "title", "context", "question", "answers")
    rows = [{name: each[name] for name in names} for each in QUESTIONS]
    splits = datasets.DatasetDict(validation=datasets.Dataset.from_list(rows))
    splits.save_to_disk(str(tmp_path / "squad"))
    found = read(
        "huggingface", task="squad2.0", split="dev", data=tmp_path / "squad"
    )
    assert [x.is_impossible for x in found] == [False, True]
    assert found[0].answers[0].text == "Eisenach"


@pytest.fixture(scope="module")
def tfds():
    pytest.importorskip("importlib_resources")
    return pytest.importorskip("tensorflow_datasets")


def store(tfds, folder, name, **splits):
    """Writes rows where, and as, a data set of TensorFlow Datasets is."""
    builder = tfds.builder(name, data_dir=folder)
    name, config = name.split("/")
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        config=config,
        version=str(builder.info.version),
        data_dir=folder,
        features=builder.info.features,
        split_datasets={
            split: list(enumerate(rows)) for split, rows in splits.items()
        },
    )


@pytest.mark.peer
def test_glue_of_tensorflow_datasets(tfds, tmp_path):
    rows = [
        {"premise": "one", "hypothesis": "zwö", "label": label, "idx": idx}
        for idx, label in enumerate((2, 0, 1))
    ]
    hidden = [{**rows[0], "label": -1}]
    store(
        tfds,
        tmp_path,
        "glue/mnli",
        train=rows,
        validation_matched=rows[:1],
        test_matched=hidden,
    )
    named = {"task": "mnli", "data": tmp_path}
    found = read("tfds", split="train", **named)
    assert {x.id: x.label for x in found} == {
        "0": "contradiction",
        "1": "entailment",
        "2": "neutral",
    }
    assert len(read("tfds", split="train[:2]", **named)) == 2
    [example] = read("tfds", split="dev", **named)
    assert (example.text, example.pair) == ("one", "zwö")
    assert read("tfds", split="test", labelled=False, **named)
    with pytest.raises(
        InputError, match="test_matched: its labels are not pub"
    ):
        read("tfds", split="test", **named)
    with pytest.raises(
        InputError, match="split none_matched: could not be loaded"
    ):
        read("tfds", split="none", **named)


@pytest.mark.peer
def test_questions_of_tensorflow_datasets(tfds, tmp_path):
    store(tfds, tmp_path, "squad/v2.0", validation=QUESTIONS)
    found = read("tfds", task="squad2.0", split="dev", data=tmp_path)
    assert {x.id: x.is_impossible for x in found} == {"5a": False, "5b": True}
    answers = [answer for each in found for answer in each.answers]
    assert [(x.text, x.start) for x in answers] == [("Eisenach", 17)]


@pytest.mark.peer
def test_race_of_tensorflow_datasets(tfds, tmp_path):
    for group, answers in (("middle", ["B"]), ("high", ["A", "C"])):
        row = {
            "example_id": f"{group}1.txt",
            "article": "It rains.",
            "questions": ["Why?", "When?"][: len(answers)],
            "options": [[*"abcd"], [*"efgh"]][: len(answers)],
            "answers": answers,
        }
        store(tfds, tmp_path, f"race/{group}", dev=[row])
    found = read("tfds", task="race", split="dev", data=tmp_path)
    assert [(x.id, x.group, x.label) for x in found] == [
        ("middle1.txt-0", "middle", 1),
        ("high1.txt-0", "high", 0),
        ("high1.txt-1", "high", 2),
    ]
    assert found[-1].options == ("e", "f", "g", "h")


def test_unknown_names(tmp_path):
    with pytest.raises(InputError, match="from='web' must be one of tfds, hug"):
        NamedSplit(source="web", **ANY)
    with pytest.raises(InputError, match="does not have task='dream'"):
        NamedSplit(source="tfds", task="dream", split="train")
    with pytest.raises(InputError, match="data=.*none: no such folder"):
        NamedSplit(source="tfds", data=tmp_path / "none", **ANY)
