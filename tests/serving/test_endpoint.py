"""`sentemb serve`, evaluated as an endpoint, gives the records of the library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.retrieval.evaluate import evaluate_retrieval
from sentemb.modules import load
from tests.evaluation.retrieval.conftest import make_set
from tests.serving.live import live

KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def model(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for which roles and the kind of similarity matter."""
    folder = tmp_path_factory.mktemp("endpoint") / "roles"
    made = load(tiny_bert, pooling="mean", device="cpu", max_length=12)
    made.prompts, made.similarity_fn_name = {"query": "the cat ", "document": ""}, "dot"
    made.save(str(folder))
    return folder


@pytest.fixture(scope="module")
def address(model: Path) -> Iterator[str]:
    with live(model.parent / "log", model, SENTEMB_API_KEYS=KEY) as server:
        yield f"endpoint:{server.address}/v1"


def test_an_endpoint_gives_the_records_of_the_library(
    address: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    data = make_set()
    ours, theirs = (evaluate_retrieval(one, [data]) for one in (str(model), f"{address}#roles"))
    assert theirs.scores == ours.scores
    assert theirs.dimension == ours.dimension
    assert theirs.datasets == ours.datasets
    for one, other in zip(load_predictions(theirs), load_predictions(ours), strict=True):
        np.testing.assert_equal(one, other)
    assert theirs.model == f"{address}#roles"
    assert theirs.encoder["answered_as"] == "roles"
    assert theirs.encoder["said_of_itself"]["fingerprint"] == ours.fingerprint
    assert KEY not in json.dumps(theirs.encoder)


def test_an_endpoint_that_cannot_be_used_is_told(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InputError, match=r"requires an API key.*OPENAI_API_KEY"):
        load_encoder(f"{address}#roles")
    monkeypatch.setenv("OPENAI_API_KEY", KEY[::-1])
    with pytest.raises(InputError, match="rejects the API key") as told:
        load_encoder(f"{address}#roles")
    assert KEY[::-1] not in str(told.value)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(InputError, match=r"does not have 'other'.*unknown model"):
        load_encoder(f"{address}#other")
    with pytest.raises(InputError, match=r"cannot reach http://127\.0\.0\.1:9"):
        load_encoder("endpoint:http://127.0.0.1:9/v1#roles")
    load_encoder(f"{address}#roles").encode(["cat dog " * 30, "cat"])
    assert "1 texts are longer" in caplog.text
