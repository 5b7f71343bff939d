from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.data.labelled import load_labelled
from sentemb.data.sampling import lacon_train_split, scl_dev_split, sg_bert_dev_split
from sentemb.errors import InputError


@pytest.mark.parametrize(
    ("name", "test", "validation"),
    [("cola", 521, 500), ("mrpc", 204, 204), ("rte", 138, 139), ("sst2", 436, 436), ("qnli", 2731, 500)],
)
def test_scls_dev_split(shared_data: Path, name: str, test: int, validation: int) -> None:
    labels = load_labelled(name, split="dev", data_dir=shared_data).labels
    parts = scl_dev_split(labels)
    assert (len(parts.test), len(parts.validation)) == (test, validation)
    assert not set(parts.test.tolist()) & set(parts.validation.tolist())
    shares = np.bincount(labels) / len(labels)
    for rows in parts:
        assert np.abs(np.bincount(labels[rows]) - shares * len(rows)).max() < 2
    again, other = scl_dev_split(labels), scl_dev_split(labels, seed=1)
    assert np.array_equal(again.test, parts.test) and np.array_equal(again.validation, parts.validation)
    assert not np.array_equal(other.test, parts.test)


def test_scls_test_set_does_not_depend_on_the_size_of_the_validation_set() -> None:
    labels = np.arange(3000) % 3
    assert np.array_equal(scl_dev_split(labels).test, scl_dev_split(labels, validation=100).test)


@pytest.mark.parametrize(("rows", "validation"), [(277, 27), (1043, 104), (872, 87), (10, 1)])
def test_sg_berts_dev_split_goes_by_order(rows: int, validation: int) -> None:
    parts = sg_bert_dev_split(rows)
    assert parts.validation.tolist() == list(range(validation))
    assert parts.test.tolist() == list(range(validation, rows))


def test_lacons_validation() -> None:
    labels = np.repeat([0, 1], [2000, 500])
    parts = lacon_train_split(labels, seed=3)
    assert np.bincount(labels[parts.validation]).tolist() == [100, 25]
    assert np.array_equal(np.union1d(parts.train, parts.validation), np.arange(2500))
    assert len(parts.train) == 2375
    assert not np.array_equal(parts.validation, lacon_train_split(labels, seed=4).validation)


@pytest.mark.parametrize(
    ("split", "fragment"),
    [
        (lambda: sg_bert_dev_split(9), "cannot split 9 rows; 10 are needed"),
        (lambda: scl_dev_split(np.array([1])), "cannot split 1 rows; 2 are needed"),
        (lambda: scl_dev_split(np.array([1.5, 2.5])), "the labels are scores"),
        (
            lambda: lacon_train_split(np.array([0, 1] * 4), seed=0),
            "0.05 of 8 rows leaves a split empty",
        ),
    ],
)
def test_too_little_to_split(split, fragment: str) -> None:
    with pytest.raises(InputError, match=fragment):
        split()


def test_parts_of_one_split_share_no_row_but_may_share_texts(shared_data: Path) -> None:
    dev = load_labelled("sst5", split="dev", data_dir=shared_data)
    parts = scl_dev_split(dev.labels)
    test = dev.select(parts.test, split="test")
    assert (len(test), test.split) == (550, "test")
