from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.evaluation.spread import geometry_table, measure_spread


def one_hot(texts: list[str]) -> np.ndarray:
    return np.eye(64)[[sum(map(ord, text)) % 64 for text in texts]]


def test_a_row_per_encoder_with_the_figures_of_its_own_spectrum(
    tiny_encoder: SentenceTransformer, pairs: ScoredPairs
) -> None:
    one = measure_spread(load_encoder(tiny_encoder), pairs)
    flat = measure_spread(load_encoder(one_hot), pairs)
    assert one.spectrum.shape == (16,)
    # Whatever has zero mean direction: variance and squared mean add up to the unit length.
    vectors = tiny_encoder.encode(sorted({*pairs.first, *pairs.second}), normalize_embeddings=True)
    expected = 1 - np.sum(vectors.mean(axis=0) ** 2)
    assert one.spectrum.sum() == pytest.approx(float(expected), rel=1e-4)
    assert flat.geometry.anisotropy < one.geometry.anisotropy
    table = geometry_table({"tiny": one, "flat": flat}, pairs)
    assert [row[0] for row in table.rows] == ["tiny", "flat"]
    assert table.rows[0][1:4] == tuple(f"{value:.3f}" for value in one.geometry[:3])
    assert table.rows[0][4].endswith(" of 16")
    assert "mine dev, 30 pairs" in table.title
