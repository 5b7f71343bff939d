"""Served scores equal those of the cross-encoder, best first."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentence_transformers import CrossEncoder

from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.serving.scoring import PairRows
from tests.serving.models import client_of, cross_encoder

DOCUMENTS = ["the cat sat", "the dog", "the bird"]


@pytest.mark.parametrize("saved", [False, True])
def test_documents_are_ranked_as_the_cross_encoder_scores_them(
    saved: bool, tiny_bert: Path, tmp_path: Path
) -> None:
    folder = cross_encoder(tiny_bert, tmp_path / "raw")
    whole = CrossEncoder(str(folder), device="cpu")
    if saved:  # as sentence-transformers does
        folder = tmp_path / "saved"
        whole.save_pretrained(str(folder))
    with client_of(rerankers=(str(folder),)) as client:
        body = {"model": folder.name, "query": "cat", "documents": DOCUMENTS}
        results = client.post("/v1/rerank", json=body).json()["results"]
        assert client.post("/v1/rerank", json={**body, "documents": []}).status_code == 422
    scores = [one["relevance_score"] for one in results]
    assert scores == sorted(scores, reverse=True)
    expected = whole.predict([("cat", document) for document in DOCUMENTS])
    assert scores == pytest.approx([expected[one["index"]] for one in results], abs=1e-5)


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
