"""The CS 224N data sets, and data that is not suitable for a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.multitask import TaskSets, load_task_sets
from sentemb.multitask.tasks import Task
from tests.multitask.toy import toy_sets

SST = "\tid\tsentence\tsentiment\n0\ta\tFine .\t3\n1\tb\tBad .\t0\n"
QUORA = "\tid\tsentence1\tsentence2\tis_duplicate\n" + "".join(
    f"{row}\t{row}\tWhat is {row}?\tWho is {row}?\t{row % 2}.0\n" for row in range(10)
)
STS = "\tid\tsentence1\tsentence2\tsimilarity\n3\ta\tA dog.\tThe dog.\t4.6\n4\tb\tA dog.\tA mat.\t0.2\n"


@pytest.fixture
def folder(write_file: Callable[[str, str], Path], tmp_path: Path) -> Path:
    for split in ("train", "dev"):
        write_file(f"cs224n/ids-sst-{split}.csv", SST)
        write_file(f"cs224n/sts-{split}.csv", STS)
    write_file("cs224n/quora-dev.csv", QUORA)
    return tmp_path


def test_a_part_of_the_dev_pairs_replaces_the_training_pairs(
    folder: Path, write_file: Callable[[str, str], Path]
) -> None:
    with pytest.raises(InputError, match=r"quora-train\.csv"):
        load_task_sets(data_dir=folder, check_rows=False)
    train, dev = load_task_sets(data_dir=folder, held_out=0.4, check_rows=False)
    assert (len(train.paraphrase), len(dev.paraphrase)) == (6, 4)
    assert not set(train.paraphrase.texts) & set(dev.paraphrase.texts)
    assert train.sentiment.labels.tolist() == [3, 0]
    assert dev.similarity.labels.tolist() == [4.6, 0.2]
    assert len(dev.sample(1).paraphrase) == 1
    with pytest.raises(InputError, match="held_out is 1; use a fraction"):
        load_task_sets(data_dir=folder, held_out=1.0, check_rows=False)
    write_file("cs224n/quora-train.csv", QUORA)
    train, dev = load_task_sets(data_dir=folder, check_rows=False)
    assert (len(train.paraphrase), len(dev.paraphrase)) == (10, 10)


@pytest.mark.parametrize(
    ("task", "data", "message"),
    [
        ("sentiment", toy_sets().paraphrase, "is not suitable for the task sentiment; use single texts of"),
        ("sentiment", LabelledTexts("one", "train", ["a"], None, np.array([0]), ("x",)), "one train is not"),
        (
            "paraphrase",
            LabelledTexts("three", "train", ["a"], ["b"], np.array([2]), ("x", "y", "z")),
            "three train is not suitable for the task paraphrase; use pairs of texts of two classes",
        ),
        (
            "similarity",
            LabelledTexts("high", "train", ["a"], ["b"], np.array([9.0]), ()),
            "use pairs of texts with scores from 0 to 5",
        ),
    ],
)
def test_sets_of_another_kind_are_refused(task: Task, data: LabelledTexts, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TaskSets(**{**dict(toy_sets()), task: data})


def test_the_real_sets(shared_data: Path) -> None:
    if not (shared_data / "cs224n").is_dir():
        pytest.skip(f"no cs224n in {shared_data}")
    train, dev = load_task_sets(data_dir=shared_data, held_out=0.5)
    assert (len(train.sentiment), len(dev.sentiment)) == (8544, 1101)
    assert len(train.paraphrase) == len(dev.paraphrase) == 10106  # two of 20,214 rows have no label
    assert (len(train.similarity), len(dev.similarity)) == (6040, 863)
    assert set(train.sentiment.labels.tolist()) == set(range(5))
    # The baseline's accuracy in Table 1, which calls nearly every pair a paraphrase.
    assert 0.36 < dev.paraphrase.labels.mean() < 0.40
    # A sample has the classes of a file that is in their order.
    some = train.sample(600)
    shares = [np.bincount(one.sentiment.labels.astype(int)) / len(one.sentiment) for one in (train, some)]
    np.testing.assert_allclose(shares[1], shares[0], atol=0.06)
    assert some.sentiment.texts == train.sample(600).sentiment.texts
