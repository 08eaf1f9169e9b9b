"""Corpora that are mixed by weight, and hosts that read their own files."""

import itertools
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import (
    create_data,
    mixture,
    record_batches,
    record_order,
    records,
    text_files,
)
from albert_tf.data.manifest import read_manifest
from albert_tf.data.mixture import parse_corpora, plain_patterns
from albert_tf.data.record_order import compute_quotas, describe_mixture
from albert_tf.data.records import open_records
from albert_tf.errors import InputError
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.train import pretrain
from albert_tf.training.input import per_replica_slices
from albert_tf.training.logging import read_metrics

SIZE = 12


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("a=0.7:x/*.txt,b=0.3:y", [("a", 0.7, "x/*.txt"), ("b", 0.3, "y")]),
        ("a=7:gs://x/k=1:2/*,b=3:y", [("a", 0.7, "gs://x/k=1:2/*"), None]),
        ("wiki-en_2=1:x", [("wiki-en_2", 1.0, "x")]),
        (["a=1:x,y", "b=1:z"], [("a", 0.5, "x,y"), ("b", 0.5, "z")]),
        (r"a=1e-1:C:\text\k=v.txt", [("a", 1.0, r"C:\text\k=v.txt")]),
        ("x/*.txt", []),
        ("gs://bucket/k=1:2/x", []),
        ("folder/k=1:2", []),
        (r"C:\k=1:2", []),
        ("k=v,x", []),
    ],
)
def test_names_and_weights(patterns, expected):
    found = parse_corpora(patterns)
    assert len(found) == len(expected)
    for corpus, wanted in zip(found, expected, strict=True):
        if wanted:
            assert (corpus.name, corpus.pattern) == wanted[::2]
            assert corpus.weight == pytest.approx(wanted[1])
    if not expected:
        assert plain_patterns(patterns) == patterns.split(",")


def test_a_path_that_looks_like_a_corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=1:x").touch()
    assert parse_corpora("a=1:x") == ()


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("a=0.7:x,y", "'y' has no name and weight"),
        ("x,a=0.7:y", "'x' has no name and weight"),
        ("a=1:x,a=1:y", "the corpus name 'a' is already used"),
        ("a=0:x", r"the weight '0' must be a number in \[1e-09, 1e\+09\]"),
        ("a=1e-300:x,b=1:y", "the weight '1e-300' must be"),
        ("a=1e308:x,b=1e308:y", "the weight '1e308' must be"),
        ("a=-1:x,b=1:y", "the weight '-1' must be"),
        ("a=nan:x", "the weight 'nan' must be"),
        ("a=inf:x", "the weight 'inf' must be"),
        ("a=:x", "the weight '' must be"),
        ("a=much:x", "the weight 'much' must be"),
        ("=1:x", "the name '' must consist of letters"),
        ("..=1:x", "the name '..' must consist of letters"),
        ("a b=1:x", "the name 'a b' must consist of letters"),
    ],
)
def test_invalid_corpora(patterns, message):
    with pytest.raises(InputError, match=message):
        parse_corpora(patterns)


@pytest.mark.parametrize(
    ("weights", "quotas"),
    [
        ((1, 1, 1), [342, 341, 341]),
        ((0.7, 0.3), [717, 307]),
        ((1000, 1), [1023, 1]),
        ((5,), [1024]),
    ],
)
def test_quotas(weights, quotas):
    parts = [f"c{i}={w}:x" for i, w in enumerate(weights)]
    assert compute_quotas(parse_corpora(parts), 1024) == quotas


def test_a_weight_for_less_than_one_record():
    with pytest.raises(InputError, match="corpus b: a share of 0.0001"):
        compute_quotas(parse_corpora("a=9999:x,b=1:y"), 1024)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(record_order, "SHUFFLE_BUFFER", 64)
    for module in (record_order, record_batches, records):
        monkeypatch.setattr(module, "GROUP_RECORDS", 20)


# Static records are read faster; mixing is the same code for both kinds.
@pytest.fixture(
    params=["static", pytest.param("dynamic", marks=pytest.mark.slow)]
)
def masking(request):
    return request.param


@pytest.fixture
def folders(created, corpus, masking, small_parts):
    """Read-only data of two corpora with different texts and sizes."""
    settings = {"masking": masking, "heldout_fraction": 0.2}
    return [
        created(input=f"{corpus}/{files}", **settings)[0]
        for files in ("a.txt", "b.txt.gz")
    ]


@pytest.fixture
def texts_of(put_labels_back):
    """Returns `texts_of(batches)`: the sorted tokens of each row."""

    def texts(batches):
        rows = itertools.chain(*map(put_labels_back, batches))
        return [tuple(sorted(row)) for row in rows]

    return texts


def batches_of(opened, count, **settings):
    dataset = opened.dataset(SIZE, seed=3, **settings)
    return list(dataset.take(count).as_numpy_iterator())


def test_every_group_has_its_share_of_each_corpus(folders, texts_of):
    wiki, books = folders
    opened = open_records(f"wiki=3:{wiki},books=1:{books}", heldout=True)
    alone = open_records(wiki).dataset(9, training=False)
    first = set(texts_of(alone.as_numpy_iterator()))
    total = sum(f.num_records for f in open_records(books).files["train"])
    seen = texts_of(batches_of(opened, max(50, 8 * total // SIZE)))
    rows = [text in first for text in seen[: 50 * SIZE]]
    groups = np.array(rows).reshape(-1, 20)
    assert (groups.sum(axis=1) == 15).all()
    assert len({tuple(group) for group in groups}) > 10  # shuffled
    # Each corpus in epochs of its own.
    others = [text for text in seen[: 8 * total] if text not in first]
    whole_groups = -(-total // 5) * 5
    assert set(others[:whole_groups]) == set(others)
    # Held-out records of the corpora take turns.
    assert {file.corpus for file in opened.files["heldout"]} == {
        "wiki",
        "books",
    }
    line = describe_mixture(opened.corpora, opened.files["train"], 4 * total)
    assert f"books 25.0%, {total:,} records, 1.00 epochs" in line


def test_a_mixture_resumes(folders):
    wiki, books = folders
    opened = open_records(f"wiki=0.6:{wiki},books=0.4:{books}")
    whole = batches_of(opened, 40)
    for start in (5, 33):  # at the border of two groups, and within one
        rest = batches_of(opened, 40 - start, first_example=start * SIZE)
        np.testing.assert_equal(rest, whole[start:])
    other = open_records(f"wiki=0.5:{wiki},books=0.5:{books}")
    assert other.identity != opened.identity != open_records(wiki).identity


@pytest.mark.long
@pytest.mark.parametrize(
    ("masking", "mixed"),
    [
        ("dynamic", True),
        pytest.param("static", True, marks=pytest.mark.slow),
        pytest.param("static", False, marks=pytest.mark.slow),
    ],
)
def test_hosts_read_their_own_files(folders, mixed):
    wiki, books = folders
    patterns = f"wiki=1:{wiki},books=1:{books}" if mixed else str(wiki)
    opened = open_records(patterns)
    # Three shards: groups of two files and of one.
    whole = batches_of(opened, 30, reading_groups=2)
    files = list(itertools.chain(*opened.files.values()))
    moved = {file.path: file.path + ".away" for file in files}
    rows = []
    for host, shards in enumerate(("02", "1")):
        own = {f.path for s in shards for f in files if f"-0000{s}-" in f.path}
        away = moved.keys() - own
        for path in away:
            tf.io.gfile.rename(path, moved[path])
        dataset = opened.dataset(
            SIZE,
            seed=3,
            first_example=13 * SIZE,
            reading_groups=2,
            input_context=tf.distribute.InputContext(2, host, 4),
        )
        assert dataset.element_spec["input_word_ids"].shape == (6, 64)
        # Two replicas a host.
        slices = per_replica_slices(
            dataset, tf.distribute.InputContext(1, 0, 2)
        )
        rows.append(list(slices.take(34).as_numpy_iterator()))
        for path in away:
            tf.io.gfile.rename(moved[path], path)
    for step, batch in enumerate(whole[13:]):
        parts = [x for host in rows for x in host[2 * step : 2 * step + 2]]
        joined = {
            name: np.concatenate([part[name] for part in parts])
            for name in batch
        }
        np.testing.assert_equal(joined, batch)


@pytest.mark.parametrize(
    ("groups", "message"),
    [(5, "must divide the batch of 12"), (4, "is too many for the 3 files")],
)
def test_invalid_reading_groups(created, groups, message):
    folder, _ = created()
    with pytest.raises(InputError, match=message):
        open_records(folder).dataset(SIZE, reading_groups=groups)


def test_a_file_in_two_corpora(created):
    folder, _ = created()
    with pytest.raises(InputError, match="in the corpora a and b"):
        open_records(f"a=1:{folder},b=1:{folder}/pretraining-*")


@pytest.fixture
def make_mixture(create, corpus):
    def make(name="mixture", **settings):
        parts = f"wiki=3:{corpus}/a.txt,books=1:{corpus}/b.txt.gz"
        settings = {"input": parts, "heldout_fraction": 0.2} | settings
        return create(name, **settings)

    return make


def test_create_data_makes_each_corpus_as_if_alone(
    make_mixture, created, contents, corpus
):
    folder, manifest = make_mixture()
    inputs = (("wiki", "a.txt"), ("books", "b.txt.gz"))
    for part, (name, file) in zip(manifest["corpora"], inputs, strict=True):
        alone, its = created(
            input=f"{corpus}/{file}", masking="static", heldout_fraction=0.2
        )
        assert contents(folder / name) == contents(alone)
        splits = its["splits"].values()
        for count in ("documents", "tokens"):
            total = sum(split["counts"][count] for split in splits)
            assert part[count] == total > 0
        assert part["name"] == name
        names = [file["name"] for split in splits for file in split["files"]]
        assert part["files"] == [f"{name}/{file}" for file in names]
    assert [part["weight"] for part in manifest["corpora"]] == [0.75, 0.25]
    given = f"wiki=3:{folder}/wiki,books=1:{folder}/books"
    one, other = (open_records(path, heldout=True) for path in (folder, given))
    assert one == other
    assert 0 < one.baselines("heldout")["mlm_unigram_accuracy"] < 1
    with pytest.raises(InputError, match="a mixture of corpora; name its"):
        open_records([folder, folder / "wiki"])


def test_an_interrupted_mixture_keeps_its_finished_corpora(
    make_mixture, contents
):
    folder, manifest = make_mixture()
    with pytest.raises(InputError, match="already holds a finished"):
        make_mixture()
    before = contents(folder / "books")
    times = [path.stat().st_mtime_ns for path in (folder / "wiki").iterdir()]
    # As if it had been killed while it made the second one.
    (folder / "manifest.json").unlink()
    tf.io.gfile.rmtree(str(folder / "books"))
    assert make_mixture() == (folder, manifest)
    assert contents(folder / "books") == before
    assert times == [
        path.stat().st_mtime_ns for path in (folder / "wiki").iterdir()
    ]
    # Others are not mistaken for it.
    cased = open_records(folder).tokenizer.with_settings(do_lower_case=False)
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="wiki: already holds a finished"):
        make_mixture(tokenizer=cased)
    assert make_mixture() == (folder, manifest)
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="wiki: already holds a finished"):
        make_mixture(seed=5)
    changed = make_mixture(seed=5, overwrite=True)[1]
    assert changed["corpora"][0]["tokens"] == manifest["corpora"][0]["tokens"]
    assert contents(folder / "books") != before


def test_an_interrupted_replacement_keeps_its_finished_corpora(
    make_mixture, contents, monkeypatch, tmp_path
):
    folder, _ = make_mixture()
    create = create_data._write_shards

    def fail(config, *rest):
        if os.fspath(config.output).endswith("books"):
            raise KeyboardInterrupt
        create(config, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(create_data, "_write_shards", fail)
        with pytest.raises(KeyboardInterrupt):
            make_mixture(seed=5, overwrite=True)
    wiki = (folder / "wiki").stat().st_ino
    _, manifest = make_mixture(seed=5, overwrite=True)
    assert (folder / "wiki").stat().st_ino == wiki
    assert manifest == make_mixture("other", seed=5)[1]
    assert contents(folder / "books") == contents(tmp_path / "other" / "books")
    # A finished one is replaced, as is what another version has made.
    make_mixture(seed=5, overwrite=True)
    replaced = (folder / "wiki").stat().st_ino
    assert replaced != wiki
    (folder / "manifest.json").unlink()
    monkeypatch.setattr(mixture, "package_versions", dict)
    make_mixture(seed=5, overwrite=True)
    assert (folder / "wiki").stat().st_ino != replaced


def test_settings_that_only_some_corpora_use(
    make_mixture, corpus, contents, monkeypatch
):
    """tests/data/test_tfds.py has the same with a real data set."""
    found = {"tfds:toy": [corpus / "a.txt"]}
    monkeypatch.setattr(
        text_files, "find_tfds_files", lambda name, _: found[name]
    )
    monkeypatch.setattr(
        mixture, "is_tfds_file", lambda path: path == corpus / "a.txt"
    )
    patterns = f"wiki=1:tfds:toy,books=1:{corpus}/b.txt.gz"
    settings = {"text_field": "body", "data_dir": "/data"}
    folder, _ = make_mixture(input=patterns, **settings)
    fields = [
        read_manifest(folder / name)["settings"]["text_field"]
        for name in ("wiki", "books")
    ]
    assert fields == ["body", "text"]
    # Such files by another name need their setting.
    before = contents(folder)
    patterns = f"books=1:{corpus}/b.txt.gz,wiki=1:{corpus}/a.txt,x=1:tfds:x"
    found["tfds:x"] = [corpus / "c.txt"]
    with pytest.raises(InputError, match="^corpus wiki: text_field='body' mus"):
        make_mixture(input=patterns, overwrite=True, **settings)
    assert contents(folder) == before


def test_bad_input_leaves_an_old_mixture_as_it_is(
    make_mixture, contents, corpus, tmp_path
):
    text = tmp_path / "text.txt"
    text.write_text((corpus / "a.txt").read_text())
    patterns = f"wiki=1:{text},books=1:{corpus}/b.txt.gz"
    folder, _ = make_mixture(input=patterns)
    before = contents(folder)
    text.write_bytes(b"bad \xff\n")
    with pytest.raises(InputError, match="corpus wiki: "):
        make_mixture(input=patterns, overwrite=True)
    assert contents(folder) == before


def test_an_error_names_the_corpus(make_mixture, corpus, tmp_path):
    (tmp_path / "short.txt").write_text("One.\n\nTwo.\n")
    patterns = f"wiki=1:{corpus}/a.txt,short=1:{tmp_path}/short.txt"
    with pytest.raises(InputError, match="^corpus short: .* no pair of segm"):
        make_mixture(input=patterns)


def test_overlapping_corpora_and_other_files_are_errors(
    make_mixture, corpus, tmp_path
):
    same = f"a=1:{corpus}/a.txt,b=1:{corpus}/*.txt"
    with pytest.raises(InputError, match="in the corpora a and b"):
        make_mixture(input=same)
    assert not (tmp_path / "mixture").exists()
    (tmp_path / "mixture").mkdir()
    (tmp_path / "mixture" / "notes").touch()
    with pytest.raises(InputError, match="contains notes, which is not one of"):
        make_mixture(overwrite=True)


@pytest.mark.long
def test_a_run_scores_and_names_each_corpus(
    make_mixture, pretrain_config, small_model, tmp_path, eagerly
):
    folder, made = make_mixture()
    run = tmp_path / "run"
    settings = {"eval_steps": 2, "max_eval_steps": 0, "log_steps": 1}
    settings["model"] = small_model
    with eagerly():
        result = pretrain(pretrain_config(folder, run, 2, **settings))
        # As if each was alone.
        alone = evaluate_pretraining(run, folder / "books")
        scores = evaluate_pretraining(run, folder)
    [line] = [x for x in read_metrics(run) if x["split"] == "eval"]
    values = line["values"]
    assert values == {x: result.evaluation[x] for x in values}
    for name in ("loss", "mlm_accuracy", "sop_accuracy"):
        parts = [values[f"{name}/{corpus}"] for corpus in ("wiki", "books")]
        assert min(parts) <= values[name] <= max(parts)
    for name in ("loss", "mlm_accuracy"):
        expected = pytest.approx(alone[name], rel=1e-5)
        assert values[f"{name}/books"] == expected
        for corpus in ("wiki", "books"):
            expected = pytest.approx(scores[f"{name}/{corpus}"], rel=1e-5)
            assert values[f"{name}/{corpus}"] == expected
    manifest = json.loads((run / "data_manifest.json").read_text())
    assert manifest["corpora"] == [
        {key: value for key, value in part.items() if key != "files"}
        for part in made["corpora"]
    ]
    assert manifest["splits"] == {}
    assert "inputs" not in manifest


@pytest.mark.long
def test_a_run_on_two_folders_does_not_describe_the_first_as_all(
    folders, pretrain_config, small_model, tmp_path, eagerly
):
    wiki, books = folders
    settings = {"model": small_model, "eval_steps": 0}
    with eagerly():
        pretrain(
            pretrain_config(f"{wiki},{books}", tmp_path / "run", 1, **settings)
        )
    text = (tmp_path / "run" / "data_manifest.json").read_text()
    manifest = json.loads(text)
    assert manifest["splits"] == {}
    assert not {"inputs", "corpora"} & manifest.keys()
    assert manifest["settings"]["max_seq_length"] == 64
