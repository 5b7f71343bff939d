"""The published schema and the routes agree: schemathesis sends valid and invalid requests.

`SENTEMB_REQUESTS` is the number of generated requests of each kind per route.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import sentemb
from sentemb.classification import Classifier
from sentemb.modules import LinearHead
from tests.serving.live import live
from tests.serving.models import cross_encoder

MODELS = {"/v1/embeddings": "tiny", "/v1/rerank": "cross", "/v1/classify": "classes"}
REQUESTS = int(os.environ.get("SENTEMB_REQUESTS", "3"))


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path, tiny: Path, animals: Path
) -> Iterator[Any]:
    """The operations that the server publishes, by schemathesis, which takes seconds to import."""
    schemathesis = pytest.importorskip(
        "schemathesis", reason="needs schemathesis, which the test extra brings"
    )
    folder = tmp_path_factory.mktemp("schema")
    encoder = sentemb.load(tiny, device="cpu")
    Classifier(encoder, LinearHead(16, 2), ["yes", "no"], max_length=32).save(folder / "classes")
    cross_encoder(tiny_bert, folder / "cross")
    index = shutil.copytree(animals, folder / "animals")
    others = ["--reranker", folder / "cross", "--classifier", folder / "classes"]
    with live(folder / "log", tiny, "--index", index, *others) as server:
        schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
        yield [found.ok() for found in schema.get_all_operations()]
        assert '"level":"error"' not in server.log.read_text()


@pytest.mark.parametrize("kind", ["positive", "negative"])
def test_routes_answer_as_the_schema_says(kind: str, served: Any) -> None:
    from schemathesis import GenerationMode

    assert len(served) > 12
    for operation in served:
        # Without a body and parameters nothing can be wrong.
        if kind == "positive" or operation.definition.raw.get("requestBody"):
            check(operation, GenerationMode(kind))


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
