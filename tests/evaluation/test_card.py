"""A card keeps what its author wrote, and says of the records what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard

from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.card import eval_results, evaluation_section, update_card
from sentemb.evaluation.geometry import geometry_suite
from sentemb.evaluation.record import load_records, write_record
from sentemb.evaluation.runner import run_suites
from sentemb.evaluation.schema import Environment, Record
from sentemb.evaluation.sts import pair_suite
from sentemb.evaluation.suites import STS, Loaded
from tests.evaluation.conftest import lengths, make_pairs
from tests.records import data_set, make_record

AUTHOR = """---
license: apache-2.0
tags:
- sentence-similarity
model-index:
- name: others
  results:
  - task: {type: retrieval}
    dataset: {name: Mine, type: org/mine}
    metrics:
    - type: ndcg
      value: 0.5
      note: measured by hand

datasets: [snli]
---
# My model

Words of the author.
"""


def result(value: float, name: str = "stsb") -> EvalResult:
    return EvalResult(
        task_type="semantic-similarity",
        dataset_type=f"mteb/{name}",
        dataset_name=name,
        dataset_split="test",
        metric_type="spearman_cosine",
        metric_value=value,
    )


def test_only_the_evaluation_changes(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(AUTHOR)
    update_card(path, "mine", [result(0.7), result(0.6, "sickr")], "## Evaluation\n\nA table.")
    once = path.read_text()
    card = ModelCard.load(path)
    assert {(one.dataset_name, one.metric_value) for one in card.data.eval_results} == {
        ("Mine", 0.5), ("stsb", 0.7), ("sickr", 0.6)
    }  # fmt: skip
    before, after = (yaml.safe_load(text.split("---\n")[1]) for text in (AUTHOR, once))
    assert [*after] == [*before] and {**after, "model-index": before["model-index"]} == before
    assert "note: measured by hand" in once and once.split("---\n")[2].startswith("# My model\n")
    path.write_text(once + "\nMore words.\n")
    update_card(path, "mine", [result(0.8)], "## Evaluation\n\nAnother table.")
    twice = path.read_text()
    assert "A table." not in twice
    assert twice.endswith("<!-- sentemb:evaluation -->\n## Evaluation\n\nAnother table.\n"
                          "<!-- /sentemb:evaluation -->\n\nMore words.\n")  # fmt: skip
    values = {one.dataset_name: one.metric_value for one in ModelCard.load(path).data.eval_results}
    assert values == {"Mine": 0.5, "stsb": 0.8, "sickr": 0.6}
    update_card(path, "mine", [result(0.8)], "## Evaluation\n\nAnother table.")
    assert path.read_text() == twice
    # Line ends stay, and a section alone leaves the metadata.
    path.write_bytes(AUTHOR.replace("\n", "\r\n").encode())
    update_card(path, "mine", [], "## Evaluation")
    content = path.read_bytes()
    assert content.count(b"\r\n") == content.count(b"\n")
    assert content.decode().replace("\r\n", "\n").startswith(AUTHOR)


@pytest.mark.parametrize("text", [None, "", "# Bare\n\nNo metadata.\n", "---\n---\nEmpty.\n"])
def test_cards_without_metadata_get_some(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "README.md"
    if text is not None:
        path.write_text(text)
    update_card(path, "mine", [result(0.7)], "## Evaluation")
    card = ModelCard.load(path)
    assert [one.metric_value for one in card.data.eval_results] == [0.7]
    assert (text or "# mine").split("---\n")[-1].strip() in path.read_text()
    assert "## Evaluation" in card.text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe", "is not valid UTF-8"),
        (b"---\ntags: [\n---\n", "the metadata is not valid YAML"),
        (b"---\n- a\n---\n", "the metadata is not valid YAML"),
        (b"---\nmodel-index: 3\n---\n", "model-index does not have the format of the hub"),
        (b"---\nmodel-index:\n- name: a\n---\n", "model-index does not have the format of the hub"),
        (b"<!-- sentemb:evaluation -->\n", "must each occur once"),
        (b"<!-- /sentemb:evaluation -->\n<!-- sentemb:evaluation -->\n", "must each occur once"),
    ],
)
def test_what_cannot_be_changed_safely_is_left_alone(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "README.md"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        update_card(path, "mine", [result(0.7)], "## Evaluation")
    assert path.read_bytes() == content


def transfer_record(model: str, fingerprint: str) -> Record:
    now = Environment(versions={"sentemb": "1.0"}, hardware={}, date="2999-01-02T00:00:00+00:00")
    sets = [data_set("mr", 2, split="train")]
    fields = {"fingerprint": fingerprint, "protocol": "simcse-fast", "seed": 1111, "environment": now}
    return make_record("transfer", model, sets, [("mr", "accuracy", 81.25)], **fields)


def test_records_of_one_model_become_results_and_tables(tmp_path: Path) -> None:
    encoder = load_encoder(lengths)
    pairs = [make_pairs("stsb", "test"), make_pairs("mine", "test", seed=4)]
    suites = (pair_suite(STS, pairs), geometry_suite(make_pairs("stsb", "dev")))
    sts = run_suites(encoder, Loaded(suites), output=tmp_path).records["sts"]
    for model, fingerprint in (("lengths", encoder.fingerprint), ("another", "another")):
        write_record(transfer_record(model, fingerprint), {}, {}, tmp_path)
    records = load_records(tmp_path, fingerprint=encoder.fingerprint)
    found = {one.dataset_name: one for one in eval_results(records)}
    assert list(found) == ["stsb", "mine", "MR"]
    assert found["stsb"].dataset_type == "mteb/stsbenchmark-sts"
    assert found["stsb"].metric_value == round(sts.score("stsb") / 100, 4)
    assert (found["MR"].dataset_type, found["MR"].dataset_split) == ("mr", "train")
    assert (found["MR"].metric_type, found["MR"].metric_value) == ("accuracy", 0.8125)
    section = evaluation_section(records, ["A table.\n"])
    assert section.startswith("## Evaluation\n\nA table.\n\nMeasured with sentemb ")
    assert ", 2999-01-02. The records " in section
    path = tmp_path / "README.md"
    update_card(path, "lengths", list(found.values()), section)
    assert len(ModelCard.load(path).data.eval_results) == 3
