"""Percentiles among random pairs of texts."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from sentemb.encoding.encoder import normalised
from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.manifest import Calibration, calibrate, lowest_score
from tests.search.bag_of_words import BagOfWords, Table, clustered

VECTORS = normalised(clustered(2_000, 24))


def of(vectors: np.ndarray) -> Calibration:
    found = calibrate(len(vectors), lambda places: vectors[places])
    assert found is not None
    return found


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return of(VECTORS)


def test_a_percentile_is_the_share_of_pairs_below(calibration: Calibration) -> None:
    pairs = np.sort((VECTORS @ VECTORS.T)[np.triu_indices(len(VECTORS), 1)])
    assert calibration.pairs == len(pairs)
    for share in (0.0013, 0.06, 0.25, 0.5, 0.66, 0.93, 0.985, 0.9985, 0.99983):
        score = float(pairs[round(share * len(pairs))])
        assert calibration.percentile(score) == pytest.approx(
            100 * share, abs=100 * 0.08 * share * (1 - share)
        )
    assert calibration.percentile(float(pairs[0]) - 1e-6) == 0
    assert calibration.most == 99.999  # ten pairs of 2 million are .000,5 %
    assert calibration.percentile(1) == calibration.percentile(float(pairs[-3])) == 99.999


def test_percentiles_rise_with_the_score_and_lead_back_to_it(calibration: Calibration) -> None:
    found = calibration.percentiles(np.linspace(-1, 1, 5_001).tolist())
    assert found == sorted(found) and len({*found}) > 3_000
    for percentile in (0.1, 0.11, 17.3, 50, 99, 99.2, 99.99, 99.999):
        score = calibration.score(percentile)
        assert calibration.percentile(score) >= percentile
        assert calibration.percentile(float(np.nextafter(np.float32(score), np.float32(-1)))) < percentile
    assert calibration.score(0) == -np.inf


def test_few_texts_know_coarse_percentiles_and_fewer_none(words: BagOfWords) -> None:
    assert calibrate(49, lambda places: VECTORS[places]) is None
    assert [of(VECTORS[:count]).most for count in (50, 200, 1_000)] == [99, 99.9, 99.995]
    assert of(np.tile(VECTORS, (2, 1))).texts == 2_000
    same = of(np.ones((60, 4), dtype=np.float32))
    assert [same.percentile(score) for score in (3.9, 4, 4.1)] == [0, 0.1, 99]
    assert same.score(0.1) == 4
    assert of(np.zeros((60, 4), dtype=np.float32)).percentile(0) == 0.1
    index = SearchIndex.build(["w1", "w2"], words)
    assert index.search("w1", 1)[0].percentile is None
    with pytest.raises(InputError, match="percentiles need at least 50 texts, but the index has 2; pass a"):
        index.search("w1", min_score="99%")


def test_large_products_are_as_exact() -> None:
    small, large = of(VECTORS[:99]), of(VECTORS[:99] * np.float32(2**30))
    assert large.scores == pytest.approx([score * 2**60 for score in small.scores], rel=1e-5)


def test_percentiles_are_shown_with_the_digits_they_need(calibration: Calibration) -> None:
    shown = [calibration.show(number) for number in (0.0, 49.96, 98.97, 99.2, 99.934, 99.9982, 99.999, None)]
    assert shown == ["0.0", "50.0", "99.0", "99.2", "99.93", "99.998", "> 99.999", ""]


@pytest.mark.parametrize(("kind", "metric"), [("flat", "dot"), ("hnsw", "cosine"), ("ivfpq", "cosine")])
def test_hits_carry_percentiles_and_are_filtered_by_them(kind: str, metric: str) -> None:
    vectors = clustered(1_500, 16)
    index = SearchIndex.build(map(str, range(1_500)), Table(vectors), kind=kind, metric=metric)  # type: ignore[arg-type]
    calibration = index.manifest.calibration
    assert calibration is not None
    hits = index.search("7", 300)
    assert [hit.percentile for hit in hits] == [calibration.percentile(hit.score) for hit in hits]
    assert hits[-1].percentile < 98 < hits[0].percentile <= calibration.most  # type: ignore[operator]
    near = index.search("7", 300, min_score="98.5%")
    assert near == [hit for hit in hits if hit.percentile >= 98.5] != []  # type: ignore[operator]
    assert index.search("7", 300, min_score="0 %") == hits
    assert index.search("7", 300, min_score=f"{hits[5].score!r}") == hits[:6]
    middle = hits[40].percentile
    assert index.search("7", 300, min_score=f"{middle}%")[-1].percentile == middle


@pytest.mark.parametrize(
    ("min_score", "message"),
    [
        ("99.9999%", "'?99.9999%'? cannot be resolved with 1,124,250 random pairs; choose 99.999% or less"),
        ("100%", "cannot be resolved with"),
        ("101%", "is not a percentile"),
        ("-1%", "is not a percentile"),
        ("%", "neither a score nor a percentile; write 0.5 or 99%"),
        ("high", "neither"),
        (float("nan"), "neither"),
        (True, "neither"),
    ],
)
def test_what_is_no_percentile_is_refused(min_score: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lowest_score(min_score, of(VECTORS[:1_500]), 1_500)  # type: ignore[arg-type]


def test_compaction_calibrates_what_has_changed(tmp_path: Path, words: BagOfWords) -> None:
    texts = [f"w{first} w{second}" for first, second in itertools.combinations(range(12), 2)]
    SearchIndex.build(texts[:10], words).save(tmp_path / "index")
    index = SearchIndex.load(tmp_path / "index", words)
    index.add([(f"n{place}", text) for place, text in enumerate(texts[10:])])
    assert index.search("w1", 1)[0].percentile is None
    with pytest.raises(
        InputError, match=r"min_score 99% needs percentiles, which this index does not have; .*index compact"
    ):
        index.search("w1", min_score="99%")
    index.compact()
    assert index.manifest.calibration == SearchIndex.build(texts, words).manifest.calibration
    assert index.search("w1", 1)[0].percentile is not None
