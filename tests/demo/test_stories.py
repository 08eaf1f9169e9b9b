"""Labels, pairs and answers of the synthetic stories."""

import csv
import json

from albert_tf.data.documents import read_documents
from albert_tf.demo.stories import TOPICS, reviews, stories, write_stories
from albert_tf.demo.story_tasks import write_mrpc, write_squad


def test_stories_are_reproducible_and_complete(tmp_path):
    found = list(stories(200, seed=3))
    assert found == list(stories(200, seed=3)) != list(stories(200, seed=4))
    assert all("{" not in line for story in found for line in story)
    lengths = {len(events) for events in TOPICS.values()}
    assert lengths <= {len(story) for story in found}
    path = write_stories(tmp_path / "stories.txt", 200, seed=3)
    assert list(read_documents(path)) == found


def test_reviews_are_balanced():
    found = reviews(100, seed=5)
    assert sum(label for _, label in found) == 50
    assert found != reviews(100, seed=6)


def test_formats_of_mrpc_and_squad(tmp_path):
    write_mrpc(tmp_path / "MRPC", train=200, dev=50)
    with open(tmp_path / "MRPC" / "train.tsv", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == 201
    assert 70 < sum(int(row[0]) for row in rows[1:]) < 130
    assert all(row[3] != row[4] for row in rows)
    write_squad(tmp_path / "squad.json", 50)
    data = json.loads((tmp_path / "squad.json").read_text("utf-8"))
    for paragraph in data["data"][0]["paragraphs"]:
        for question in paragraph["qas"]:
            (answer,) = question["answers"]
            start = answer["answer_start"]
            end = start + len(answer["text"])
            assert paragraph["context"][start:end] == answer["text"]
            assert "{" not in question["question"]
