from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sentemb.data.sts import STS_SETS, ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation import UndefinedScoreError, evaluate_pairs, evaluate_sts
from sentemb.evaluation.record import load_predictions
from tests.evaluation.conftest import make_pairs

# all-MiniLM-L6-v2 under "all". STS12 has 61 pairs of identical strings, which tie only when each string is
# encoded once; programs that encode them twice report 72.3647 to 72.3683.
MINILM = {
    "sts12": 72.3702,
    "sts13": 80.6002,
    "sts14": 75.5997,
    "sts15": 85.3896,
    "sts16": 78.9859,
    "stsb": 82.0325,
    "sickr": 77.1469,
}


def letters(texts: list[str]) -> np.ndarray:
    """How often each letter occurs."""
    return np.array(
        [[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], dtype=float
    )


def test_one_call_with_each_sentence_once() -> None:
    calls: list[list[str]] = []

    def encode(texts: list[str]) -> np.ndarray:
        calls.append(texts)
        return letters(texts)

    one, two = make_pairs("one", seed=1), make_pairs("two", seed=2)
    two.first[:10] = one.second[:10]
    report = evaluate_pairs(encode, [one, two])
    assert len(calls) == 1
    assert len(calls[0]) == len(set(calls[0])) == report.details["unique"]
    assert set(calls[0]) == {*one.first, *one.second, *two.first, *two.second}
    assert report.details["sentences"] == 120
    assert [one.name for one in report.datasets] == ["one", "two"]


def test_together_equals_apart() -> None:
    one, two = make_pairs("one", seed=1), make_pairs("two", sizes=(10, 20), seed=2)
    both = evaluate_pairs(letters, [one, two])
    for pairs in (one, two):
        alone = evaluate_pairs(letters, [pairs])
        for protocol in ("all", "mean", "wmean"):
            assert both.score(pairs.name, protocol=protocol) == alone.score(pairs.name, protocol=protocol)


def test_identical_strings_tie_at_one_for_a_noisy_encoder(pairs: ScoredPairs) -> None:
    pairs.second[:12] = pairs.first[:12]
    generator = np.random.default_rng(0)

    def noisy(texts: list[str]) -> np.ndarray:
        return letters(texts) + generator.normal(size=(len(texts), 26))

    similarities = load_predictions(evaluate_pairs(noisy, [pairs])).values["mine"]
    assert (similarities[:12] == 1.0).all()
    assert (similarities[12:] < 1.0).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_vectors_that_are_not_finite_are_an_error_that_names_the_set(
    pairs: ScoredPairs, value: float
) -> None:
    def broken(texts: list[str]) -> np.ndarray:
        vectors = letters(texts)
        vectors[3] = value
        return vectors

    with pytest.raises(UndefinedScoreError, match=r"^mine: .*NaN or infinity"):
        evaluate_pairs(broken, [pairs])


def test_a_constant_encoder_is_an_error_that_names_the_set(pairs: ScoredPairs) -> None:
    with pytest.raises(UndefinedScoreError, match=r"^mine: all 30 similarities are equal"):
        evaluate_pairs(lambda texts: np.ones((len(texts), 7)), [pairs])


def test_agrees_with_the_model_itself(tiny_encoder: SentenceTransformer, pairs: ScoredPairs) -> None:
    report = evaluate_pairs(tiny_encoder, [pairs])
    first, second = (tiny_encoder.encode(side).astype(np.float64) for side in (pairs.first, pairs.second))
    expected = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    np.testing.assert_allclose(load_predictions(report).values["mine"], expected, atol=1e-5)
    assert report.dimension == 16
    assert report.environment.seconds["encode"] > 0


def test_average_needs_the_seven() -> None:
    names = [*STS_SETS, "sickr-mteb"]
    record = evaluate_pairs(letters, [make_pairs(name, "test", seed=seed) for seed, name in enumerate(names)])
    for metric in ("spearman", "pearson"):
        scores = [record.score(name, metric) for name in STS_SETS]
        assert record.average(metric) == pytest.approx(np.mean(scores))
    some = [score for score in record.scores if score.dataset != "sickr"]
    assert record.model_copy(update={"scores": tuple(some)}).average() is None


def test_own_files_stand_beside_sets(tmp_path: Path) -> None:
    rows = ["sentence1,sentence2,score", *(f"cat {'a' * n},dog {'ab' * (n % 5)},{n}" for n in range(12))]
    (tmp_path / "mine.csv").write_text("\n".join(rows))
    record = evaluate_sts(letters, [str(tmp_path / "mine.csv")])
    (dataset,) = record.datasets
    assert (dataset.name, dataset.items, record.average()) == ("mine", 12, None)


def test_user_errors_in_the_list_of_sets(tmp_path: Path, pairs: ScoredPairs) -> None:
    for sets, problem in (
        ((), "the list of sets is empty"),
        ("stsb", "the list of sets is empty"),
        (("stsb", "stsb"), "listed twice"),
        (("sts18",), "unknown data set 'sts18'"),
    ):
        with pytest.raises(InputError, match=problem):
            evaluate_sts(letters, sets, data_dir=tmp_path)
    for some, problem in (([], "the list of pairs is empty"), ([pairs, pairs], "set mine is listed twice")):
        with pytest.raises(InputError, match=problem):
            evaluate_pairs(letters, some)
    with pytest.raises(InputError, match=r"mine spearman \(all\), mine spearman \(mean\)"):
        evaluate_pairs(letters, [pairs]).score("stsb")


def test_minilm_on_the_sts_benchmark(minilm: Path, shared_data: Path) -> None:
    report = evaluate_sts(str(minilm), ("stsb",), data_dir=shared_data)
    assert report.datasets[0].items == 1379
    assert report.score("stsb") == pytest.approx(82.0325, abs=3e-4)


@pytest.mark.slow
def test_minilm_on_the_seven_sets(minilm: Path, shared_data: Path) -> None:
    report = evaluate_sts(str(minilm), data_dir=shared_data)
    assert (report.details["sentences"], report.details["unique"]) == (37_700, 26_126)
    for name, expected in MINILM.items():
        assert report.score(name) == pytest.approx(expected, abs=1e-3), name
    mean = report.average()
    assert mean is not None
    assert mean == pytest.approx(sum(MINILM.values()) / 7, abs=1e-3)
    assert (load_predictions(report).values["sts12"] == 1.0).sum() >= 61
