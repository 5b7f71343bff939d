from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.data.sampling import Copy
from sentemb.errors import InputError
from sentemb.experiments.experiment import Setting
from sentemb.experiments.labelled_sets import ImpossibleDraw, LabelledSets, Splits
from tests.experiments.toy import labelled_sets, texts


def splits(data: str, protocol: str, value: float | None = None, seed: int = 1, **options: Any) -> Splits:
    return labelled_sets(**options).splits(data, Setting(protocol, value), seed)


@pytest.mark.parametrize(
    ("data", "rule", "sizes"),
    [
        ("toy", None, (400, 200, 200)),  # scl tests on half of dev
        ("toy", "lacon", (380, 20, 400)),  # on dev, and validates on training rows
        ("toy", "sg-bert", (400, 40, 360)),  # and validates on the first tenth
        ("rare", None, (760, 40, 200)),  # a published test split
        ("single", None, (228, 12, 60)),  # a fifth of a set of one split
    ],
)
def test_rules_say_where_rows_come_from(data: str, rule: Any, sizes: tuple[int, int, int]) -> None:
    one, other = splits(data, "full", rule=rule), splits(data, "full", rule=rule, seed=2)
    assert tuple(one.sizes.values()) == sizes
    assert not set(one.test.texts) & set(one.validation.texts)
    # LaCon divides the training rows again for each seed.
    assert (one.checksums == other.checksums) == (rule != "lacon")
    assert one.checksums["test"] == other.checksums["test"]
    if rule == "sg-bert":
        assert one.test.texts == texts("dev", 400, 2).texts[40:]


def test_a_subset_is_the_same_for_every_seed_and_keeps_the_shares() -> None:
    one, other = splits("rare", "train", 100), splits("rare", "train", 100, seed=2)
    whole = texts("train", 800, 3, rare=0.2).labels.mean()
    assert one.sizes == {"train": 100, "validation": 40, "test": 200}
    assert abs(one.train.labels.mean() - whole) < 0.01
    assert one.checksums == other.checksums
    assert splits("toy", "train", 30).sizes == {"train": 30, "validation": 30, "test": 200}
    lacon = [splits("rare", "train", 100, seed=seed, rule="lacon") for seed in (1, 2)]
    assert lacon[0].checksums == lacon[1].checksums and len(lacon[0].train) == 100


def test_shots_are_drawn_again_for_each_seed() -> None:
    sets = [splits("toy", "shots", 20, seed=seed) for seed in range(10)]
    assert {len(one.train) for one in sets} == {20}
    assert len({one.checksums["train"] for one in sets}) == 10
    assert len({one.checksums["validation"] + one.checksums["test"] for one in sets}) == 1
    one, other = splits("toy", "full", test_rows=50), splits("toy", "shots", 20, seed=2, test_rows=50)
    assert len(one.test) == 50 and one.checksums["test"] == other.checksums["test"]


def test_per_class_validates_on_as_many_others_unless_dev_does() -> None:
    lacon = splits("three", "per-class", 20, rule="lacon")
    assert set(lacon.train.class_counts.values()) == {20} == set(lacon.validation.class_counts.values())
    assert len(lacon.test) == 150 and not set(lacon.train.texts) & set(lacon.validation.texts)
    scl = splits("toy", "per-class", 20, rule="scl")
    assert scl.sizes == {"train": 40, "validation": 200, "test": 200}


@pytest.mark.parametrize("ratio", [1, 3, 5])
def test_rho_makes_the_rare_class_the_minority(ratio: int) -> None:
    one = splits("rare", "rho", ratio)
    counts = {"class-0": 32 * ratio, "class-1": 32}
    assert one.minority == 1
    assert one.train.class_counts == counts == one.validation.class_counts
    assert not set(one.train.texts) & set(one.validation.texts)
    assert one.sizes["test"] == 200


def test_noise_adds_three_copies_to_each_of_a_hundred_rows() -> None:
    copies = {
        "toy": [
            Copy(row, f"{'x' * number}", None, temperature, f"back.tsv:{row}")
            for row in range(400)
            for temperature in (0.3, 0.9)
            for number in range(1, 4)
        ]
    }
    alone, noisy = splits("toy", "noise", 0), splits("toy", "noise", 0.9, copies=copies)
    assert len(alone.train) == 100 and len(noisy.train) == 400
    assert noisy.train.texts[:100] == alone.train.texts
    np.testing.assert_array_equal(noisy.train.labels[100:], np.repeat(alone.train.labels, 3))
    # Where validation rows come from the training split, they are neither rows nor copies of rows.
    lacon = splits("toy", "noise", 0.9, copies=copies, rule="lacon")
    assert lacon.sizes["train"] == 400 and not any("x" in text for text in lacon.validation.texts)
    assert not set(lacon.validation.texts) & set(lacon.train.texts)
    assert alone.checksums["test"] == noisy.checksums["test"]
    with pytest.raises(InputError, match=r"noisy copies of toy are missing; .*--data copies\.toy=FILE"):
        splits("toy", "noise", 0.9)


def test_classes_grow_in_training_validation_and_test() -> None:
    one = splits("three", "classes", 2)
    assert one.train.label_names == one.test.label_names == ("class-0", "class-1")
    assert set(one.test.labels.tolist()) == {0, 1}


def test_repeated_texts_are_drawn_once_and_never_where_they_are_validated_or_tested_on() -> None:
    train, dev = texts("train", 60, 1), texts("dev", 80, 2)
    doubled = train.select([*range(60), 10, 11, 12])
    leaking = replace(doubled, texts=[*dev.texts[:5], *doubled.texts[5:]])
    twice = dev.select([*range(80), 7, 8])
    data = LabelledSets(own={"toy": {"train": leaking, "dev": twice}})
    for setting in (Setting("full"), Setting("train", 20), Setting("per-class", 10), Setting("rho", 1)):
        try:
            one = data.splits("toy", setting, 1)
        except ImpossibleDraw:
            assert setting.name == "rho"
            continue
        parts = [set(part.texts) for part in (one.train, one.validation, one.test)]
        assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]
        assert len(parts[0]) == len(one.train)
        assert one.left_out == {"repeated": 3, "in validation or test": 5}


@pytest.mark.parametrize(
    ("data", "setting", "value", "problem"),
    [
        ("rare", "rho", 20, "rare at rho-20: class 0 has"),
        ("toy", "per-class", 500, "toy at per-class-500"),
        ("toy", "shots", 2.5, r"integer, not 2\.5"),
        ("toy", "shot", 20, "unknown setting 'shot'"),
        ("colla", "full", None, "colla"),
        ("three", "classes", 4, "3 classes, not 4"),
    ],
)
def test_user_errors_name_what_is_wrong(data: str, setting: str, value: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        splits(data, setting, value)
    # An experiment skips what a set does not allow.
    assert isinstance(caught.value, ImpossibleDraw) == (setting in ("rho", "per-class", "classes"))
    with pytest.raises(InputError, match=r"toy does not have a test split; choose among train, dev"):
        splits("toy", "full", rule="published")


@pytest.mark.parametrize(
    ("name", "rule", "sizes"),
    [
        ("cola", None, (8515, 498, 521)),
        ("rte", None, (2488, 139, 138)),
        ("rte", "lacon", (2364, 124, 277)),
        ("mrpc", "sg-bert", (3668, 40, 368)),
        ("trec", None, (5101, 268, 500)),
        ("trec", "lacon", (4525, 238, 500)),
        ("eprstmt", None, (131, 160, 610)),
        ("eprstmt", "lacon", (124, 7, 610)),
        ("ocnli/train-3k", None, (2994, 500, 1475)),
    ],
)
def test_sizes_of_the_papers_sets(
    shared_data: Path, name: str, rule: Any, sizes: tuple[int, int, int]
) -> None:
    data = LabelledSets(shared_data, rule=rule)
    found = data.splits(name, Setting("full"), 1).sizes
    assert tuple(found.values()) == sizes
    with pytest.raises(InputError, match="mnli-mm"):
        data.splits("mnli-mm/train", Setting("full"), 1)
