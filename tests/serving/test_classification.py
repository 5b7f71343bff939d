"""Served classes equal those of the classifier, alone and with concurrent requests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import sentemb
from sentemb.classification import Classifier
from sentemb.modules import LinearHead
from sentemb.serving.scoring import ClassifierRows
from tests.serving.models import client_of
from tests.training.training_helpers import make_sentences

LABELS = ["animal", "person", "thing"]
TEXTS = [*make_sentences(20, seed=5), "", "cat " * 300]
PAIRS = [(first, second) for first, second in zip(TEXTS, TEXTS[::-1], strict=True)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> list[Path]:
    made = []
    for name, pairs in (("texts", False), ("pairs", True)):
        encoder = sentemb.load(tiny_bert, pooling="mean", device="cpu")
        head = LinearHead(encoder.get_embedding_dimension(), 3)
        made.append(tmp_path_factory.mktemp("classifiers") / name)
        Classifier(encoder, head, LABELS, pairs=pairs, max_length=32).save(made[-1])
    return made


@pytest.fixture(scope="module")
def client(folders: list[Path]) -> Iterator[TestClient]:
    with client_of(classifiers=tuple(folders), truncate="truncate", workers=2) as found:
        yield found


def classified(client: TestClient, **body: Any) -> Any:
    answer = client.post("/v1/classify", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(("place", "inputs"), [(0, TEXTS), (1, PAIRS)])
def test_probabilities_are_those_of_the_classifier_for_the_input_alone(
    place: int, inputs: list[Any], folders: list[Path], client: TestClient
) -> None:
    classifier = Classifier.load(folders[place], device="cpu")
    expected = np.concatenate([classifier.predict_proba([one]) for one in inputs])
    name = folders[place].name
    answer = classified(client, model=name, input=inputs)
    rows = np.array([[one["probabilities"][label] for label in LABELS] for one in answer["data"]], np.float32)
    np.testing.assert_array_equal(rows, expected)
    assert [one["label"] for one in answer["data"]] == classifier.predict(inputs)
    assert answer["truncated"] == classifier.count_cut(inputs) > 0
    with ThreadPoolExecutor(8) as pool:
        alone = list(pool.map(lambda one: classified(client, model=name, input=[one]), inputs))
    assert [one["data"][0]["probabilities"] for one in alone] == [
        one["probabilities"] for one in answer["data"]
    ]
    assert sum(one["usage"]["total_tokens"] for one in alone) == answer["usage"]["total_tokens"]
    assert classified(client, model=name, input=inputs[:1] if place else inputs[0]) == alone[0]


def test_a_long_text_is_tokenized_no_further_than_needed(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [ClassifierRows(Classifier.load(folder, device="cpu")) for folder in folders]
    tokenizer: Any = type(rows[0]._tokenizer)
    call, lengths = tokenizer.__call__, list[int]()

    def record(self: Any, texts: Any, *options: Any, **named: Any) -> Any:
        lengths.extend(len(part) for one in texts for part in ([one] if isinstance(one, str) else one))
        return call(self, texts, *options, **named)

    monkeypatch.setattr(tokenizer, "__call__", record)
    for classifier, text in zip(rows, ("cat " * 10**6, ("cat " * 10**6, "a dog")), strict=True):
        ready = classifier.prepare([text])
        assert list(ready.cut) == [0] and ready.lengths[0] == 32
    assert max(lengths) < 10_000


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"model": "texts", "input": [["a", "b"]]}, 409, "input"),
        ({"model": "pairs", "input": ["a"]}, 409, "input"),
        ({"model": "pairs", "input": [["a"]]}, 422, "input.0"),
        ({"model": "texts", "input": []}, 422, "input"),
        ({"model": "none", "input": "a"}, 404, "model"),
        ({"model": "texts", "input": ["a", "cat " * 300], "truncate": "error"}, 409, "input.1"),
        ({"model": "texts", "input": ["a"] * 2049}, 422, "input"),
    ],
)
def test_a_bad_request_is_a_problem_that_names_the_field(
    body: Any, status: int, field: str, client: TestClient
) -> None:
    answer = client.post("/v1/classify", json=body)
    assert (answer.status_code, answer.json()["field"]) == (status, field), answer.text
