from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb.data.labelled import LabelledTexts, load_labelled, score_classes
from sentemb.data.sampling import (
    LACON_WHOLE,
    cap_per_class,
    few_shot_per_class,
    imbalanced,
    stratified_sample,
)
from sentemb.errors import InputError

LABELS = np.repeat([0, 1, 2], [600, 300, 100])
RNG = np.random.default_rng(0)
RNG.shuffle(LABELS)


def counts(rows: np.ndarray, labels: np.ndarray = LABELS) -> list[int]:
    assert np.array_equal(rows, np.unique(rows))  # ascending, none twice
    assert rows.dtype == np.int64
    return np.bincount(labels[rows], minlength=3).tolist()


@pytest.mark.parametrize(
    ("size", "expected"), [(1000, [600, 300, 100]), (20, [12, 6, 2]), (7, [4, 2, 1]), (1, [1, 0, 0])]
)
def test_classes_keep_their_shares(size: int, expected: list[int]) -> None:
    assert counts(stratified_sample(LABELS, size, seed=0)) == expected


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any),
    part=st.floats(0.01, 1),
    seed=st.integers(0, 3),
)
def test_no_class_is_more_than_a_row_away_from_its_share(sizes: list[int], part: float, seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    size = max(1, round(part * len(labels)))
    rows = stratified_sample(labels, size, seed=seed)
    assert len(rows) == len(set(rows.tolist())) == size
    drawn = np.bincount(labels[rows], minlength=len(sizes))
    assert (np.abs(drawn - np.array(sizes) * size / len(labels)) < 1).all()


SAMPLERS: list[Callable[[int], np.ndarray]] = [
    lambda seed: stratified_sample(LABELS, 100, seed=seed),
    lambda seed: cap_per_class(LABELS, limit=50, seed=seed),
    lambda seed: few_shot_per_class(LABELS, seed=seed).train,
    lambda seed: few_shot_per_class(LABELS, seed=seed).validation,
    lambda seed: imbalanced(LABELS, ratio=3, seed=seed),
]


@pytest.mark.parametrize("sample", SAMPLERS)
def test_the_seed_decides(sample: Callable[[int], np.ndarray]) -> None:
    first, again, other = sample(1), sample(1), sample(2)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_lacons_cap() -> None:
    assert counts(cap_per_class(LABELS, limit=200, seed=0)) == [200, 200, 100]
    two, more = np.repeat([0, 1], 6000), np.repeat([0, 1, 2], 6000)
    assert np.bincount(two[cap_per_class(two, seed=0)]).tolist() == [5000, 5000]
    assert np.bincount(more[cap_per_class(more, seed=0)]).tolist() == [1000, 1000, 1000]
    assert {"cola", "rte", "mrpc-msr"} < set(LACON_WHOLE)
    with pytest.raises(InputError, match="a limit of 0 rows"):
        cap_per_class(LABELS, limit=0, seed=0)


def test_lacons_few_shots() -> None:
    train, validation = few_shot_per_class(LABELS, seed=0)
    assert counts(train) == counts(validation) == [20, 20, 20]
    assert not set(train.tolist()) & set(validation.tolist())
    assert counts(few_shot_per_class(LABELS, shots=50, seed=0).train) == [50, 50, 50]
    with pytest.raises(InputError, match="class 2 has 100 rows, but 200 are needed"):
        few_shot_per_class(LABELS, shots=100, seed=0)


def test_lacons_imbalance() -> None:
    assert counts(imbalanced(LABELS, ratio=3, seed=0)) == [96, 96, 32]
    assert counts(imbalanced(LABELS, ratio=1, smallest=5, seed=0)) == [5, 5, 5]
    assert counts(imbalanced(LABELS, ratio=2, smallest=50, minority=1, seed=0)) == [100, 50, 100]
    equal = np.repeat([0, 1], 40)
    assert np.bincount(equal[imbalanced(equal, ratio=2, smallest=20, seed=0)]).tolist() == [20, 40]
    for wrong, fragment in [
        ({"ratio": 5, "minority": 0}, "class 2 has 100 rows, but 160 are"),
        ({"ratio": 0}, "a rat"),
    ]:
        with pytest.raises(InputError, match=fragment):
            imbalanced(LABELS, seed=0, **wrong)
    with pytest.raises(InputError, match="no row has the minority class 3"):
        imbalanced(LABELS, ratio=2, minority=3, seed=0)


@pytest.mark.parametrize("size", [0, 1001])
def test_sizes_that_the_rows_do_not_allow(size: int) -> None:
    with pytest.raises(InputError, match="of 1,000 rows; choose a size between"):
        stratified_sample(LABELS, size, seed=0)


def test_scores_are_refused_until_they_are_classes() -> None:
    scores = np.array([0.0, 1.24, 1.2, 5.0, 1.25])
    with pytest.raises(InputError, match="the labels are scores, not classes; convert them"):
        stratified_sample(scores, 2, seed=0)
    assert score_classes(scores).tolist() == [0, 1, 1, 2, 1]
    assert score_classes(scores, decimals=None).tolist() == [0, 2, 1, 4, 3]


def test_a_growing_number_of_classes() -> None:
    data = LabelledTexts("x", "train", list("abcd"), None, np.array([2, 0, 1, 0]), ("p", "q", "r"))
    two = data.first_classes(2)
    assert (two.texts, two.labels.tolist(), two.label_names) == (["b", "c", "d"], [0, 1, 0], ("p", "q"))
    assert data.first_classes(3).texts == data.texts
    with pytest.raises(InputError, match="x has 3 classes, not 4"):
        data.first_classes(4)


def test_real_sets(shared_data: Path) -> None:
    acceptability = load_labelled("cola", split="train", data_dir=shared_data)
    rows = imbalanced(acceptability.labels, ratio=10, seed=0)
    assert acceptability.select(rows).class_counts == {"unacceptable": 32, "acceptable": 320}
    topics = load_labelled("tnews-few", split="train", data_dir=shared_data)
    train, validation = few_shot_per_class(topics.labels, seed=0)
    assert len(train) == len(validation) == 300
    scores = load_labelled("stsb-glue", split="train", data_dir=shared_data).labels
    assert score_classes(scores).max() + 1 == len({f"{score:.1f}" for score in scores}) == 50
