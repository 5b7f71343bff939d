"""Subsets and splits as the papers draw them, and noisy copies of rows."""

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
    add_copies,
    cap_per_class,
    draw_extremes,
    few_shot_per_class,
    imbalanced,
    lacon_train_split,
    read_copies,
    scl_dev_split,
    sg_bert_dev_split,
    stratified_sample,
)
from sentemb.errors import InputError

Write = Callable[[str, str], Path]
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [600, 300, 100]))
GOLD = np.array([0, 5, 5, 0, 2.5, 5, 0, 5, 0, 1, 4.8, 0])


def counts(rows: np.ndarray, labels: np.ndarray = LABELS) -> list[int]:
    assert np.array_equal(rows, np.unique(rows))  # ascending, none twice
    assert rows.dtype == np.int64
    return np.bincount(labels[rows], minlength=3).tolist()


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


@pytest.mark.parametrize(
    "sample",
    [
        lambda seed: stratified_sample(LABELS, 100, seed=seed),
        lambda seed: cap_per_class(LABELS, limit=50, seed=seed),
        lambda seed: few_shot_per_class(LABELS, seed=seed).train,
        lambda seed: few_shot_per_class(LABELS, seed=seed).validation,
        lambda seed: imbalanced(LABELS, ratio=3, seed=seed),
        lambda seed: lacon_train_split(LABELS, seed=seed).validation,
        lambda seed: scl_dev_split(LABELS, seed=seed).test,
    ],
)
def test_the_seed_decides(sample: Callable[[int], np.ndarray]) -> None:
    first, again, other = sample(1), sample(1), sample(2)
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_sizes_of_classes() -> None:
    for size, expected in ((1000, [600, 300, 100]), (20, [12, 6, 2]), (7, [4, 2, 1]), (1, [1, 0, 0])):
        assert counts(stratified_sample(LABELS, size, seed=0)) == expected
    assert counts(cap_per_class(LABELS, limit=200, seed=0)) == [200, 200, 100]
    for classes, limit in ((2, 5000), (3, 1000)):
        many = np.repeat(np.arange(classes), 6000)
        assert np.bincount(many[cap_per_class(many, seed=0)]).tolist() == [limit] * classes
    assert {"cola", "rte", "mrpc-msr"} < set(LACON_WHOLE)
    train, validation = few_shot_per_class(LABELS, seed=0)
    assert counts(train) == counts(validation) == [20, 20, 20]
    assert not set(train.tolist()) & set(validation.tolist())
    assert counts(few_shot_per_class(LABELS, shots=50, seed=0).train) == [50, 50, 50]
    assert counts(imbalanced(LABELS, ratio=3, seed=0)) == [96, 96, 32]
    assert counts(imbalanced(LABELS, ratio=1, smallest=5, seed=0)) == [5, 5, 5]
    assert counts(imbalanced(LABELS, ratio=2, smallest=50, minority=1, seed=0)) == [100, 50, 100]
    equal = np.repeat([0, 1], 40)
    assert np.bincount(equal[imbalanced(equal, ratio=2, smallest=20, seed=0)]).tolist() == [20, 40]
    labels = np.repeat([0, 1], [2000, 500])
    parts = lacon_train_split(labels, seed=3)
    assert np.bincount(labels[parts.validation]).tolist() == [100, 25]
    assert np.array_equal(np.union1d(parts.train, parts.validation), np.arange(2500))


@pytest.mark.parametrize(
    ("draw", "fragment"),
    [
        (lambda: stratified_sample(LABELS, 0, seed=0), "cannot draw 0 of 1,000 rows; choose a size between"),
        (lambda: stratified_sample(GOLD, 2, seed=0), "the labels are scores, not classes; convert them"),
        (lambda: cap_per_class(LABELS, limit=0, seed=0), "a limit of 0 rows"),
        (lambda: few_shot_per_class(LABELS, shots=100, seed=0), "class 2 has 100 rows, but 200 are needed"),
        (lambda: imbalanced(LABELS, ratio=0, seed=0), "a ratio of 0 would"),
        (lambda: imbalanced(LABELS, ratio=2, minority=3, seed=0), "no row has the minority class 3"),
        (lambda: sg_bert_dev_split(9), "cannot split 9 rows; 10 are needed"),
        (lambda: draw_extremes(GOLD, count=7), "7 positive"),
        (lambda: draw_extremes(np.array([1, 1, 1, 2.0]), count=2), "overlap at 1"),
    ],
)
def test_what_the_rows_do_not_allow(draw: Callable[[], object], fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        draw()
    assert fragment in str(caught.value)


def test_scores_become_classes_and_classes_grow() -> None:
    scores = np.array([0.0, 1.24, 1.2, 5.0, 1.25])
    assert score_classes(scores).tolist() == [0, 1, 1, 2, 1]
    assert score_classes(scores, decimals=None).tolist() == [0, 2, 1, 4, 3]
    data = LabelledTexts("x", "train", list("abcd"), None, np.array([2, 0, 1, 0]), ("p", "q", "r"))
    two = data.first_classes(2)
    assert (two.texts, two.labels.tolist(), two.label_names) == (["b", "c", "d"], [0, 1, 0], ("p", "q"))
    assert data.first_classes(3).texts == data.texts
    with pytest.raises(InputError, match="x has 3 classes, not 4"):
        data.first_classes(4)


@pytest.mark.parametrize(("name", "test", "validation"), [("cola", 521, 500), ("rte", 138, 139)])
def test_scls_dev_split(shared_data: Path, name: str, test: int, validation: int) -> None:
    labels = load_labelled(name, split="dev", data_dir=shared_data).labels
    parts = scl_dev_split(labels)
    assert (len(parts.test), len(parts.validation)) == (test, validation)
    assert not set(parts.test.tolist()) & set(parts.validation.tolist())
    shares = np.bincount(labels) / len(labels)
    for rows in parts:
        assert np.abs(np.bincount(labels[rows]) - shares * len(rows)).max() < 2
    assert np.array_equal(scl_dev_split(labels, validation=100).test, parts.test)


def test_sg_berts_dev_split_is_by_order() -> None:
    for rows, validation in ((277, 27), (1043, 104), (10, 1)):
        parts = sg_bert_dev_split(rows)
        assert parts.validation.tolist() == list(range(validation))
        assert parts.test.tolist() == list(range(validation, rows))


def test_extremes_are_the_ends_of_the_scale_drawn_by_the_seed() -> None:
    positive, negative = draw_extremes(GOLD, count=3, seed=1)
    assert set(GOLD[positive]) == {5.0} and set(GOLD[negative]) == {0.0}
    assert len({*positive, *negative}) == 6
    np.testing.assert_array_equal(draw_extremes(GOLD, count=3, seed=1).positive, positive)
    seen = {row for seed in range(30) for row in draw_extremes(GOLD, count=3, seed=seed).positive}
    assert seen == {1, 2, 5, 7}  # any pair of the highest score can come
    positive, negative = draw_extremes(GOLD, count=6, seed=0)  # the next scores fill up
    assert sorted(GOLD[positive]) == [2.5, 4.8, 5, 5, 5, 5] and sorted(GOLD[negative]) == [0, 0, 0, 0, 0, 1]


ROWS = np.array([3, 1])
SINGLE = LabelledTexts("sst2", "train", ["a ", *"bcdb"], None, np.array([0, 1, 0, 1, 0]), ("n", "p"))


def numbered(copies: int) -> str:
    lines = [f'{row}\t"{row}.{n}\t{t}' for row in range(5) for n in range(copies) for t in (0.3, 0.9)]
    return "\n".join(["index\taugmented\ttemperature", *lines]) + "\n"


def test_each_row_gets_three_copies_with_its_label(write_file: Write) -> None:
    copies = read_copies(write_file("back.tsv", numbered(3)), temperature="temperature")
    assert (len(copies), copies[0].original, copies[0].text, copies[1].temperature) == (30, 0, '"0.0', 0.9)
    noisy = add_copies(SINGLE, ROWS, copies, seed=0, temperature=0.9)
    assert noisy.texts == ["d", "b", '"3.0', '"3.1', '"3.2', '"1.0', '"1.1', '"1.2']
    assert noisy.labels.tolist() == [1] * 8 and (noisy.split, noisy.pairs) == ("train with copies", None)
    both = add_copies(SINGLE, np.array([2, 3]), copies, seed=0, temperature=0.3, ratio=1)
    assert both.labels.tolist() == [0, 1, 0, 1]
    more = read_copies(write_file("more.tsv", numbered(9)), temperature="temperature")
    first, again, other = (add_copies(SINGLE, ROWS, more, seed=s, temperature=0.3) for s in (0, 0, 1))
    assert first.texts == again.texts != other.texts and len(set(first.texts)) == len(first) == 8


def test_copies_of_pairs(write_file: Write) -> None:
    data = LabelledTexts("qnli", "train", ["q", "r"], ["s", "s"], np.array([0, 1]), ("y", "n"))
    path = write_file("back.csv", "index,augmented,augmented_pair\n1,R,S\n0,Q,S\n")
    copies = read_copies(path, pair="augmented_pair")
    noisy = add_copies(data, np.array([0]), copies, seed=0, ratio=1)
    assert (noisy.texts, noisy.pairs, noisy.labels.tolist()) == (["q", "Q"], ["s", "S"], [0, 0])
    with pytest.raises(InputError, match=r"back\.csv:2: sst2 has single texts; name one column of copies"):
        add_copies(SINGLE, ROWS, copies, seed=0)


@pytest.mark.parametrize(
    ("rows", "fragment"),
    [
        ("augmented\n5\tx\n", "back.tsv:2: sst2 train does not have row 5 (counted from 0)"),
        ("augmented\n3\tx\n", "row 3 of sst2 train has 1 copies, but 3 are needed; make more"),
        ("augmented\ttemperature\n3\tx\t0.5\n", "has 0 copies at temperature 0.7, but 3 are needed"),
        ("augmented\ttemperature\n3\tx\thot\n", "a number in column 'temperature', but found 'hot'"),
    ],
)
def test_copies_that_do_not_fit(write_file: Write, rows: str, fragment: str) -> None:
    path, warm = write_file("back.tsv", f"index\t{rows}"), "temperature" in rows
    with pytest.raises(InputError) as caught:
        copies = read_copies(path, temperature="temperature" if warm else None)
        add_copies(SINGLE, ROWS, copies, seed=0, temperature=0.7 if warm else None)
    assert fragment in str(caught.value)
