"""Suites: which sets an average is over, and records that stand beside each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.data.catalogue import expand
from sentemb.errors import InputError
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.evaluation.sts import evaluate_pairs, load_sets
from sentemb.evaluation.suites import MULTILINGUAL, get_suite
from tests.evaluation.conftest import lengths, make_pairs


def test_the_multilingual_suite_is_the_tracks_of_2017() -> None:
    assert MULTILINGUAL.sets == tuple(expand(["sts17"]))
    assert (MULTILINGUAL.measure, MULTILINGUAL.protocol) == ("pearson", "wmean")
    with pytest.raises(InputError, match="unknown suite 'bilingual'; choose one of sts, multilingual"):
        get_suite("bilingual")


def test_its_average_is_the_mean_of_the_tracks() -> None:
    sets = [make_pairs(name, "test", seed=seed) for seed, name in enumerate(MULTILINGUAL.sets)]
    spanish = make_pairs("sts14-es", "test", (10, 20), seed=50)
    record = evaluate_pairs(lengths, [*sets, spanish], suite=MULTILINGUAL)
    scores = [record.score(name) for name in MULTILINGUAL.sets]
    assert record.average(protocol="wmean") == pytest.approx(sum(scores) / 7)
    assert record.average(protocol="wmean") == record.average()  # all seven are in one part
    similarities = load_predictions(record).values["sts14-es"]
    parts = [
        100 * np.corrcoef(similarities[rows], spanish.gold[rows])[0, 1]
        for rows in (slice(0, 10), slice(10, 30))
    ]
    found = record.score("sts14-es", protocol="wmean")
    assert found == pytest.approx((10 * parts[0] + 20 * parts[1]) / 30)
    assert evaluate_pairs(lengths, sets[1:], suite=MULTILINGUAL).average() is None
    assert evaluate_pairs(lengths, sets).average() is None  # these are not the seven sets of English


def test_records_of_both_suites_share_a_folder(tmp_path: Path) -> None:
    spanish = [make_pairs("sts17-es-es", "test", seed=5)]
    evaluate_pairs(lengths, [make_pairs("stsb", "test")], folder=tmp_path)
    evaluate_pairs(lengths, spanish, folder=tmp_path, suite=MULTILINGUAL)
    assert (tmp_path / "lengths.multilingual.wmean.json").is_file()
    (english,) = load_records(tmp_path, suite="sts")
    (other,) = load_records(tmp_path, suite="multilingual")
    assert [one.name for one in english.datasets] == ["stsb"]
    assert (other.suite, other.protocol) == ("multilingual", "wmean")

    def refuse(texts: list[str]) -> np.ndarray:
        raise AssertionError("encoded in vain")

    refuse.__name__ = refuse.__qualname__ = "lengths"
    with pytest.raises(InputError, match=r"already exists|is a record of another model"):
        evaluate_pairs(refuse, spanish, folder=tmp_path, suite=MULTILINGUAL)
    evaluate_pairs(lengths, spanish, folder=tmp_path, suite=MULTILINGUAL, overwrite=True)


def test_families_stand_for_their_members(shared_data: Path) -> None:
    pairs = load_sets(["sts17", "stsb"], data_dir=shared_data)
    assert [one.name for one in pairs] == [*MULTILINGUAL.sets, "stsb"]
    with pytest.raises(InputError, match="set sts17-es-es is listed twice"):
        load_sets(["sts17-es-es", "sts17"], data_dir=shared_data)
