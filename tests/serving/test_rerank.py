"""Served scores are those of the cross-encoder, best first."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx", reason="needs httpx, which the test extra brings")

from fastapi.testclient import TestClient
from sentence_transformers import CrossEncoder

from sentemb.serving.app import create_app
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
