"""The published schema and the routes agree: schemathesis sends valid and invalid requests.

`SENTEMB_REQUESTS` is the number of generated requests of each kind per route.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import sentemb
from sentemb.classification import Classifier
from sentemb.modules import LinearHead
from sentemb.search import SearchIndex
from tests.serving.live import live
from tests.serving.models import cross_encoder
from tests.training.training_helpers import make_sentences

pytest.importorskip("fastapi", reason="needs the extra serve")
schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis, which the test extra brings")

MODELS = {"/v1/embeddings": "tiny", "/v1/rerank": "cross", "/v1/classify": "classes"}
REQUESTS = int(os.environ.get("SENTEMB_REQUESTS", "3"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("schema")
    encoder = sentemb.load(tiny_bert, pooling="mean", device="cpu")
    encoder.save(str(folder / "tiny"))
    head = LinearHead(encoder.get_embedding_dimension(), 2)
    Classifier(encoder, head, ["yes", "no"], max_length=32).save(folder / "classes")
    cross_encoder(tiny_bert, folder / "cross")
    SearchIndex.build(make_sentences(30, seed=3), "static-mini").save(folder / "animals")
    arguments = [
        "--index",
        folder / "animals",
        "--reranker",
        folder / "cross",
        "--classifier",
        folder / "classes",
    ]
    with live(folder / "log", folder / "tiny", *arguments) as server:
        yield schemathesis.openapi.from_url(f"{server.address}/openapi.json")
        assert '"level":"error"' not in server.log.read_text()


@pytest.mark.parametrize("kind", list(schemathesis.GenerationMode))
def test_routes_answer_as_the_schema_says(kind: Any, served: Any) -> None:
    operations = [found.ok() for found in served.get_all_operations()]
    assert len(operations) > 12
    for operation in operations:
        # Without a body and parameters nothing can be wrong.
        if kind != schemathesis.GenerationMode.NEGATIVE or operation.definition.raw.get("requestBody"):
            check(operation, kind)


def check(operation: Any, kind: Any) -> None:
    @given(operation.as_strategy(generation_mode=kind))
    @settings(
        max_examples=REQUESTS,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def send(case: Any) -> None:
        # A made-up name would be no more than unknown.
        if "name" in case.path_parameters:
            case.path_parameters["name"] = "animals"
        if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
            case.body["model"] = MODELS[operation.path]
        case.call_and_validate()

    send()
