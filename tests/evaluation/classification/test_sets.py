from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.data.augmented import Copy
from sentemb.errors import InputError
from sentemb.evaluation.classification import Cell, Point, ProtocolData, Splits
from tests.evaluation.classification.toy import CE, protocol_data


def splits(data: str, protocol: str, value: float | None = None, seed: int = 1, **options: Any) -> Splits:
    return protocol_data(**options)(Cell(CE, data, Point(protocol, value), seed, "accuracy"))


def test_scl_tests_on_half_of_dev_and_all_seeds_on_the_same() -> None:
    one, other = splits("toy", "full"), splits("toy", "full", seed=2)
    assert one.sizes == {"train": 400, "validation": 200, "test": 200}
    assert one.checksums == other.checksums
    assert not set(one.test.texts) & set(one.validation.texts)


def test_lacon_tests_on_dev_and_validates_on_training_rows() -> None:
    one = splits("toy", "full", rule="lacon")
    assert one.sizes == {"train": 380, "validation": 20, "test": 400}
    assert splits("toy", "full", rule="lacon", seed=2).checksums["train"] != one.checksums["train"]


def test_sg_bert_validates_on_the_first_tenth() -> None:
    one = splits("toy", "full", rule="sg-bert")
    assert one.sizes == {"train": 400, "validation": 40, "test": 360}
    assert one.test.texts == protocol_data().load("toy", "dev").texts[40:]


def test_a_published_test_split_is_tested_on() -> None:
    one = splits("rare", "full")
    assert one.sizes == {"train": 760, "validation": 40, "test": 200}


def test_a_subset_is_the_same_for_every_seed_and_keeps_the_shares() -> None:
    one, other = splits("rare", "train", 100), splits("rare", "train", 100, seed=2)
    whole = protocol_data().load("rare", "train").labels.mean()
    drawn = np.concatenate([one.train.labels, one.validation.labels])
    assert len(drawn) == 100 and abs(drawn.mean() - whole) < 0.01
    assert sorted(one.train.texts + one.validation.texts) == sorted(
        other.train.texts + other.validation.texts
    )


def test_shots_are_drawn_anew_for_each_seed() -> None:
    sets = [splits("toy", "shots", 20, seed=seed) for seed in range(10)]
    assert {len(one.train) for one in sets} == {20}
    assert len({one.checksums["train"] for one in sets}) == 10
    assert len({one.checksums["validation"] + one.checksums["test"] for one in sets}) == 1


def test_per_class_validates_on_as_many_others_unless_dev_does() -> None:
    lacon = splits("three", "per-class", 20)
    assert set(lacon.train.class_counts.values()) == {20} == set(lacon.validation.class_counts.values())
    assert len(lacon.test) == 150 and not set(lacon.train.texts) & set(lacon.validation.texts)
    scl = splits("toy", "per-class", 20, rule="scl")
    assert scl.sizes == {"train": 40, "validation": 200, "test": 200}


@pytest.mark.parametrize("ratio", [1, 3, 5])
def test_rho_makes_the_rare_class_the_minority(ratio: int) -> None:
    one = splits("rare", "rho", ratio)
    counts = {"class-0": 32 * ratio, "class-1": 32}
    assert one.train.class_counts == counts == one.validation.class_counts
    assert not set(one.train.texts) & set(one.validation.texts)
    assert one.sizes["test"] == 200


def test_noise_adds_three_copies_to_each_of_a_hundred_rows() -> None:
    copies = {
        "toy": [
            Copy(row, (), f"{'x' * number}", None, temperature, f"back.tsv:{row}")
            for row in range(400)
            for temperature in (0.3, 0.9)
            for number in range(1, 4)
        ]
    }
    alone, noisy = splits("toy", "noise", 0), splits("toy", "noise", 0.9, copies=copies)
    assert len(alone.train) == 100 and len(noisy.train) == 400
    assert noisy.train.texts[:100] == alone.train.texts
    np.testing.assert_array_equal(noisy.train.labels[100:], np.repeat(alone.train.labels, 3))
    assert alone.checksums["test"] == noisy.checksums["test"]
    with pytest.raises(InputError, match=r"no noisy copies of toy; .*--copies toy=FILE"):
        splits("toy", "noise", 0.9)


def test_classes_grow_in_training_validation_and_test() -> None:
    one = splits("three", "classes", 2)
    assert one.train.label_names == one.test.label_names == ("class-0", "class-1")
    assert set(one.test.labels.tolist()) == {0, 1}
    with pytest.raises(InputError, match="3 classes, not 4"):
        splits("three", "classes", 4)


def test_mistakes_name_what_is_wrong() -> None:
    with pytest.raises(InputError, match=r"toy has no test split; it has train, dev"):
        splits("toy", "full", rule="published")
    with pytest.raises(InputError, match=r"whole number, not 2\.5"):
        splits("toy", "shots", 2.5)
    with pytest.raises(InputError, match="no protocol is called 'shot'"):
        splits("toy", "shot", 20)
    with pytest.raises(InputError, match="colla"):
        splits("colla", "full")


@pytest.mark.parametrize(
    ("name", "rule", "sizes"),
    [
        ("cola", None, (8551, 500, 521)),
        ("rte", None, (2490, 139, 138)),
        ("rte", "lacon", (2366, 124, 277)),
        ("mrpc", "sg-bert", (3668, 40, 368)),
        ("trec", None, (5179, 273, 500)),
        ("trec", "lacon", (4576, 241, 500)),
        ("eprstmt", None, (160, 160, 610)),
        ("eprstmt", "lacon", (152, 8, 610)),
    ],
)
def test_sizes_of_the_papers_sets(
    shared_data: Path, name: str, rule: Any, sizes: tuple[int, int, int]
) -> None:
    data = ProtocolData(shared_data, rule=rule)
    found = data(Cell(CE, name, Point("full"), 1, "accuracy")).sizes
    assert tuple(found.values()) == sizes


def test_imbalance_of_cola(shared_data: Path) -> None:
    data = ProtocolData(shared_data, rule="lacon")
    one = data(Cell(CE, "cola", Point("rho", 20), 1, "matthews"))
    assert sorted(one.train.class_counts.values()) == [32, 640]
    assert len(one.test) == 1043
