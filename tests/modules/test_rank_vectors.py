from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from sentemb._vectors import average_ranks
from sentemb.errors import InputError
from sentemb.modules import RankVectors, load


@pytest.mark.parametrize("preset", [None, "released"])
def test_the_cosine_is_equation_7(preset) -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(5, 4, dtype=torch.float64, generator=generator)
    corpus = torch.randn(30, 4, dtype=torch.float64, generator=generator) * torch.arange(1, 31).view(-1, 1)
    corpus[25:] = corpus[:5]  # ties
    module = RankVectors(4, 30, 0.9, preset).fit(corpus)
    mixed = module({"sentence_embedding": vectors.clone()})["sentence_embedding"]
    assert mixed.shape == (5, module.get_embedding_dimension()) == (5, 34)
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    scored = unit @ (corpus if preset else corpus / corpus.norm(dim=1, keepdim=True)).T
    method = "ordinal" if preset else "average"
    ranks = stats.rankdata(scored.round(decimals=12).numpy(), axis=1, method=method)
    spearman = np.corrcoef(ranks)
    expected = 0.9 * (unit @ unit.T).numpy() + 0.1 * spearman
    np.testing.assert_allclose((mixed @ mixed.T).numpy(), expected, atol=1e-9)


def test_average_ranks_are_those_of_scipy() -> None:
    values = torch.tensor([[3.0, 1.0, 3.0, 2.0, 3.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0] * 6])
    np.testing.assert_array_equal(average_ranks(values).numpy() + 1, stats.rankdata(values.numpy(), axis=1))


def test_a_saved_model_gives_the_same_vectors(tiny_encoder, tmp_path) -> None:
    tiny_encoder.eval()
    corpus = torch.from_numpy(tiny_encoder.encode(["a cat", "the dog ran", "man plays guitar"]))
    tiny_encoder.append(RankVectors(16, 3).fit(corpus))
    expected = tiny_encoder.encode(["a woman", "children eat"])
    assert expected.shape == (2, 19)
    tiny_encoder.save(str(tmp_path / "model"))
    np.testing.assert_array_equal(load(tmp_path / "model").encode(["a woman", "children eat"]), expected)


@pytest.mark.parametrize("options", [{"size": 1}, {"size": 5, "weight": 1.5}])
def test_bad_options_are_refused(options) -> None:
    with pytest.raises(InputError, match="at least two sentences, and a weight between 0 and 1"):
        RankVectors(4, **options)
