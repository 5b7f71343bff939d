"""A fitted transform becomes part of a model: at its end, before its normalisation, saved and loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import sentemb
from sentemb._compat import Dense, Normalize
from sentemb.encoding.sentence import encode_with_dropout, is_plain_text_model
from sentemb.errors import InputError
from sentemb.modules import FlowModule, load
from sentemb.training import resolve
from sentemb.transforms import FlowConfig, add_flow, add_whitening, fit_flow, fit_whitening
from sentemb.transforms.fit import BertAdam, append_transform
from tests.conftest import WORDS

TEXTS = [f"{a} {b} {c}" for a in WORDS[:8] for b in WORDS[8:16] for c in ("sat", "in the park")]


@pytest.fixture
def encoder(tiny_bert: Path) -> SentenceTransformer:
    return load(tiny_bert, pooling="last-2", device="cpu")


@pytest.fixture
def normalised(tiny_bert: Path) -> SentenceTransformer:
    built = load(tiny_bert, pooling="mean", device="cpu")
    return SentenceTransformer(
        modules=[*built, Normalize()],
        device="cpu",
        prompts={"query": "the "},
        default_prompt_name="query",
        similarity_fn_name="dot",
    )


def test_whitening_needs_only_sentence_transformers(encoder: SentenceTransformer, tmp_path: Path) -> None:
    vectors = encoder.encode(TEXTS)
    model = add_whitening(encoder, TEXTS, dimensions=6)
    expected = fit_whitening(vectors, 6)({"sentence_embedding": torch.from_numpy(vectors)})[
        "sentence_embedding"
    ]
    np.testing.assert_allclose(model.encode(TEXTS), expected.detach(), atol=1e-3)
    assert encoder.encode(TEXTS[:1]).shape == (1, 16)  # unchanged
    model.save(str(tmp_path / "model"))
    entries = json.loads((tmp_path / "model" / "modules.json").read_text())
    assert all(entry["type"].startswith("sentence_transformers.") for entry in entries)
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), model.encode(TEXTS), atol=1e-4)


def test_a_model_that_normalises_goes_on_doing_so(normalised: SentenceTransformer) -> None:
    # The average of a last LayerNorm lies in a hyperplane, so that 15 of 16 dimensions vary.
    whitened = add_whitening(normalised, TEXTS)
    assert [type(module) for module in list(whitened)[2:]] == [Dense, Normalize]
    assert whitened.get_embedding_dimension() == 15
    flowed = add_flow(normalised, TEXTS, config=FlowConfig(width=4))
    assert [type(module) for module in list(flowed)[2:]] == [FlowModule, Normalize]
    bare = SentenceTransformer(modules=list(normalised)[:2], device="cpu")
    raw = torch.from_numpy(bare.encode(["the " + text for text in TEXTS]))  # with the default prompt
    expected = torch.nn.functional.normalize(flowed[2].transform(raw)[0])
    np.testing.assert_allclose(flowed.encode(TEXTS), expected.detach(), atol=1e-4)
    for model in (whitened, flowed):
        np.testing.assert_allclose(np.linalg.norm(model.encode(TEXTS), axis=1), 1, atol=1e-5)
        assert is_plain_text_model(model)
        assert (model.default_prompt_name, model.similarity_fn_name) == ("query", "dot")


def test_a_flow_is_saved_loaded_and_encodes_the_same(encoder: SentenceTransformer, tmp_path: Path) -> None:
    steps: list[int] = []
    model = add_flow(
        encoder,
        TEXTS[::2],
        TEXTS[1::2],
        config=FlowConfig(width=4, batch_size=16),
        cache_dir=tmp_path / "cache",
        on_step=lambda step, steps_in_all, bits: steps.append(steps_in_all),
    )
    assert steps == [4] * 4
    assert list((tmp_path / "cache").glob("*.sqlite"))
    model.save(str(tmp_path / "model"))
    loaded = sentemb.load(tmp_path / "model", device="cpu")
    np.testing.assert_allclose(loaded.encode(TEXTS), model.encode(TEXTS), atol=1e-5)


def test_dropout_is_seeded_new_in_every_epoch_and_leaves_the_model_as_it_was(
    encoder: SentenceTransformer,
) -> None:
    encoder.eval()
    state = torch.random.get_rng_state()
    first, again, other = (encode_with_dropout(encoder, ["a cat"] * 3, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first[0], first[1])
    assert not encoder.training
    assert not any(module.training for module in encoder.modules())
    assert torch.equal(torch.random.get_rng_state(), state)
    config = FlowConfig(width=4, encoder_dropout=True, epochs=2)
    seen: list[Any] = []
    encoder[0].register_forward_pre_hook(lambda module, inputs: seen.append(module.training))
    model = add_flow(encoder, TEXTS, config=config)
    assert seen == [True] * 4  # 128 texts by 64, twice
    assert isinstance(model[-1], FlowModule)


def test_a_length_holds_while_fitting_only(encoder: SentenceTransformer) -> None:
    lengths: list[int] = []
    encoder[0].register_forward_pre_hook(
        lambda module, inputs: lengths.append(inputs[0]["input_ids"].shape[1])
    )
    model = add_whitening(encoder, [text + " red apple" * 5 for text in TEXTS], dimensions=3, max_length=6)
    assert max(lengths) == 6
    assert encoder.max_seq_length == model.max_seq_length == 64


def test_what_does_not_fit(encoder: SentenceTransformer) -> None:
    with pytest.raises(InputError, match="expects vectors of 8 dimensions, but the model computes 16"):
        append_transform(encoder, fit_whitening(np.random.default_rng(0).normal(size=(50, 8))))
    with pytest.raises(InputError, match="2 first sentences, but 1 second sentences"):
        add_flow(encoder, TEXTS[:2], TEXTS[:1])
    with pytest.raises(InputError, match="the list of sentences is empty"):
        add_flow(encoder, [])
    with pytest.raises(InputError, match="3 vectors are too few to estimate the covariance of 16"):
        add_whitening(encoder, TEXTS[:3])
    with pytest.raises(InputError, match="max_length 2 is too short for any word"):
        add_whitening(encoder, TEXTS, max_length=2)


def test_a_model_that_cuts_its_vectors_is_whitened_in_what_is_left(encoder: SentenceTransformer) -> None:
    encoder.truncate_dim = 4
    whitened = add_whitening(encoder, TEXTS).encode(TEXTS)
    assert whitened.shape[1] <= 4
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(whitened.shape[1]), atol=0.3)


def correlated(count: int, width: int, *, rank: int | None = None, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(rank or width, width)) * np.linspace(3, 0.1, rank or width)[:, None]
    return (rng.normal(size=(count, rank or width)) @ mixing + rng.normal(size=width) * 5).astype(np.float32)


def apply(dense: torch.nn.Module, vectors: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return dense({"sentence_embedding": torch.from_numpy(vectors)})["sentence_embedding"].numpy()


@pytest.mark.parametrize("dimensions", [None, 12, 5, 1])
def test_mean_zero_and_unit_covariance_in_the_order_of_variance(dimensions: int | None) -> None:
    vectors = correlated(500, 12)
    dense = fit_whitening(vectors, dimensions)
    whitened = apply(dense, vectors)
    kept = dimensions or 12
    assert whitened.shape == (500, kept) == (500, dense.get_embedding_dimension())
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(whitened.T).reshape(kept, kept), np.eye(kept), atol=1e-3)


def test_the_papers_svd_gives_the_same_cosines() -> None:
    vectors = correlated(300, 10)
    mean = vectors.mean(axis=0, keepdims=True)
    u, s, _ = np.linalg.svd(np.cov(vectors.T.astype(np.float64)))
    expected = (vectors - mean) @ (u / np.sqrt(s))[:, :4]
    whitened = apply(fit_whitening(vectors, 4), vectors)

    def cosines(matrix: np.ndarray) -> np.ndarray:
        unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        return unit @ unit.T

    np.testing.assert_allclose(cosines(whitened), cosines(expected), atol=1e-3)


def test_directions_without_variance_are_left_out() -> None:
    vectors = correlated(400, 16, rank=13)
    dense = fit_whitening(vectors)
    assert dense.out_features == 13
    np.testing.assert_allclose(np.cov(apply(dense, vectors).T), np.eye(13), atol=1e-2)
    with pytest.raises(
        InputError, match="vary in 13 of 16 dimensions, but 14 were requested; keep at most 13"
    ):
        fit_whitening(vectors, 14)


def test_a_mean_far_away_costs_no_precision() -> None:
    vectors = correlated(300, 6) + np.float32(500)
    np.testing.assert_allclose(np.cov(apply(fit_whitening(vectors), vectors).T), np.eye(6), atol=1e-2)


@pytest.mark.parametrize(
    ("vectors", "dimensions", "message"),
    [
        (np.ones((5, 8)), None, "5 vectors are too few to estimate the covariance of 8 dimensions"),
        (np.ones((50, 8)), None, "vary in 0 of 8 dimensions.*different sentences"),
        (np.ones((50, 8)), 9, "dimensions is 9, but the vectors have 8 dimensions"),
        (np.ones((50, 8)), 0, "dimensions is 0, but the vectors have 8"),
        (np.ones(8), None, r"shape \(8,\)"),
        (np.full((50, 8), np.nan), None, "vectors contains NaN or infinity"),
        ([["a"]], None, "must be a 2-D array of numbers"),
    ],
)
def test_what_cannot_be_whitened(vectors: object, dimensions: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_whitening(vectors, dimensions)


def skewed(count: int, width: int = 8, seed: int = 0) -> np.ndarray:
    """Vectors that no shift and scale makes normal: half of the channels depend on the others."""
    base = np.random.default_rng(seed).normal(size=(count, width // 2))
    return (np.concatenate([base, base**2 + 0.3 * base], axis=1) * 2 + 5).astype(np.float32)


@pytest.mark.parametrize("optimizer", ["adamw", "bert-adam"])
@pytest.mark.parametrize(("coupling", "permutation"), [("additive", "reverse"), ("affine", "learned")])
def test_fitting_lowers_the_bits_of_unseen_vectors(optimizer: Any, coupling: Any, permutation: Any) -> None:
    options = {"optimizer": optimizer, "coupling": coupling, "permutation": permutation}
    short, long = (
        fit_flow(
            skewed(128), skewed(128, seed=1), config=FlowConfig(learning_rate=5e-3, epochs=epochs, **options)
        )
        for epochs in (1, 5)
    )
    unseen = torch.from_numpy(skewed(300, seed=2))
    with torch.no_grad():
        assert float(long.bits(unseen).mean()) < float(short.bits(unseen).mean()) - 0.05
    assert not long.training


def test_the_first_step_begins_at_the_initialised_flow() -> None:
    seen: list[tuple[int, int, float]] = []
    first, second = skewed(64), skewed(64, seed=1)
    config = FlowConfig(batch_size=64, learning_rate=1e-12)
    flow = fit_flow(first, second, config=config, on_step=lambda *report: seen.append(report))
    ((step, steps, bits),) = seen
    expected = torch.cat([flow.bits(torch.from_numpy(side)) for side in (first, second)]).mean()
    assert (step, steps) == (1, 1)
    assert bits == pytest.approx(float(expected.detach()), abs=1e-5)
    initial = flow.stages[0][0].norm(torch.from_numpy(first))
    torch.testing.assert_close(initial.mean(dim=0), torch.zeros(8), atol=1e-4, rtol=0)
    torch.testing.assert_close(initial.std(dim=0, correction=0), torch.ones(8), atol=1e-4, rtol=0)


def test_the_same_seed_gives_the_same_flow_and_leaves_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    flows = [fit_flow(skewed(100), config=FlowConfig(seed=seed, width=4)) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    vectors = torch.from_numpy(skewed(5))
    same, again, other = (flow.transform(vectors)[0] for flow in flows)
    assert torch.equal(same, again)
    assert not torch.allclose(same, other)


def test_berts_adam_by_hand() -> None:
    weight = torch.tensor([1.0, -2.0], requires_grad=True)
    optimizer = BertAdam([weight], lr=0.1, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-6)
    expected, mean, square = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    for step in range(3):
        gradient = np.array([0.5 + step, -1.5])
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        expected = expected - 0.1 * (mean / (np.sqrt(square) + 1e-6) + 0.01 * expected)
        assert weight.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_the_released_preset() -> None:
    config = resolve("flow", overrides={"output": "o", "preset": "released", "seed": 7}).flow
    assert (config.optimizer, config.encoder_dropout, config.seed) == ("bert-adam", True, 7)
    assert resolve("flow", overrides={"output": "o"}).flow == FlowConfig()
    with pytest.raises(InputError, match=r"needs an encoder.*add_flow"):
        fit_flow(skewed(64), config=config)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (skewed(3), None, "too few sentences to fit a flow"),
        (skewed(30), skewed(29), r"differ: \(30, 8\) and \(29, 8\)"),
        (skewed(30)[:, :3], None, "3 dimensions cannot be halved"),
        (np.full((30, 8), np.inf), None, "contains NaN or infinity: 30 rows, the first is row 0"),
        (skewed(30).astype(np.float64) * 1e30, None, "diverged at step 1 of 1"),
    ],
)
def test_what_no_flow_can_be_fitted_to(first: Any, second: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_flow(first, second)
