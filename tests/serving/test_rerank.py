"""Served scores are those of the cross-encoder, best first."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx", reason="needs httpx, which the test extra brings")

from fastapi.testclient import TestClient
from sentence_transformers import CrossEncoder

from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.serving.app import create_app
from sentemb.serving.scoring import PairRows
from sentemb.serving.settings import Settings
from tests.serving.models import cross_encoder

DOCUMENTS = ["the cat sat", "the dog", "the bird"]


def test_documents_are_ranked_as_the_cross_encoder_scores_them(tiny_bert: Path, tmp_path: Path) -> None:
    folder = cross_encoder(tiny_bert, tmp_path / "cross")
    expected = CrossEncoder(str(folder)).predict([("cat", document) for document in DOCUMENTS])
    app = create_app(Settings(rerankers=(str(folder),)))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        asked = {"model": "cross", "query": "cat", "documents": DOCUMENTS}
        results = client.post("/v1/rerank", json=asked).json()["results"]
        assert client.post("/v1/rerank", json={**asked, "documents": []}).status_code == 422
    scores = [one["relevance_score"] for one in results]
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx([expected[one["index"]] for one in results], abs=1e-5)


def test_a_cross_encoder_that_sentence_transformers_saved_is_served(tiny_bert: Path, tmp_path: Path) -> None:
    raw = cross_encoder(tiny_bert, tmp_path / "raw")
    whole = CrossEncoder(str(raw), device="cpu")
    whole.save_pretrained(str(tmp_path / "saved"))
    app = create_app(Settings(rerankers=(str(tmp_path / "saved"),)))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        asked = {"model": "saved", "query": "cat", "documents": DOCUMENTS}
        results = client.post("/v1/rerank", json=asked).json()["results"]
    expected = whole.predict([("cat", document) for document in DOCUMENTS])
    assert [one["relevance_score"] for one in results] == pytest.approx(
        [expected[one["index"]] for one in results], abs=1e-5
    )


def test_an_encoder_and_a_cross_encoder_are_told_apart(tiny_bert: Path, tmp_path: Path) -> None:
    raw = cross_encoder(tiny_bert, tmp_path / "raw")
    CrossEncoder(str(raw), device="cpu").save_pretrained(str(tmp_path / "saved"))
    for folder in (raw, tmp_path / "saved"):
        with pytest.raises(InputError, match=r"is a cross-encoder.*--reranker"):
            load_encoder(folder, device="cpu")
    load(tiny_bert, pooling="mean", device="cpu").save(str(tmp_path / "encoder"))
    for folder in (tiny_bert, tmp_path / "encoder"):
        with pytest.raises(InputError, match=r"is a sentence encoder.*remove --reranker"):
            PairRows(str(folder), device="cpu")
