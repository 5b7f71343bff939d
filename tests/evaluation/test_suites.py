"""Suites: which sets an average is over, and records that stand beside each other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.catalogue import expand
from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation.judge import judge_sts
from sentemb.evaluation.records import read_record, read_records, record_of, write_record
from sentemb.evaluation.sts import evaluate_pairs, load_sets
from sentemb.evaluation.suites import MULTILINGUAL, get_suite

MakePairs = Callable[..., ScoredPairs]


def lengths(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), text.count("a") + 1, 1] for text in texts], dtype=np.float32)


def test_the_multilingual_suite_is_the_tracks_of_2017() -> None:
    assert MULTILINGUAL.sets == tuple(expand(["sts17"]))
    assert (MULTILINGUAL.measure, MULTILINGUAL.protocol) == ("pearson", "wmean")
    with pytest.raises(InputError, match="no suite is called 'bilingual'; choose one of sts, multilingual"):
        get_suite("bilingual")


def test_its_average_is_the_mean_of_the_tracks(make_pairs: MakePairs) -> None:
    sets = [make_pairs(name, "test", seed=seed) for seed, name in enumerate(MULTILINGUAL.sets)]
    spanish = make_pairs("sts14-es", "test", (10, 20), seed=50)
    report = evaluate_pairs(lengths, [*sets, spanish])
    record = record_of(report, suite=MULTILINGUAL)
    scores = [report.score(name).pearson for name in MULTILINGUAL.sets]
    assert record.average("wmean").pearson == pytest.approx(sum(scores) / 7)
    assert record.average("wmean") == record.average("all")  # all seven are in one part
    parts = [
        100 * np.corrcoef(report.sets[-1].predictions.similarities[rows], spanish.gold[rows])[0, 1]
        for rows in (slice(0, 10), slice(10, 30))
    ]
    assert report.score("sts14-es", "wmean").pearson == pytest.approx((10 * parts[0] + 20 * parts[1]) / 30)
    assert dataclasses.replace(record, sets=record.sets[1:]).average("wmean") is None
    assert dataclasses.replace(record, suite="sts").average("wmean") is None


def test_records_of_both_suites_share_a_folder(make_pairs: MakePairs, tmp_path: Path) -> None:
    english = [make_pairs("stsb", "test")]
    spanish = [make_pairs("sts17-es-es", "test", seed=5)]
    write_record(judge_sts(lengths, english, folder=tmp_path), tmp_path)
    record = judge_sts(lengths, spanish, folder=tmp_path, suite=MULTILINGUAL)
    path = write_record(record, tmp_path)
    assert path.name == "lengths.multilingual.wmean.json"
    assert [one.sets[0].name for one in read_records(tmp_path)] == ["stsb"]
    (read,) = read_records(tmp_path, suite=MULTILINGUAL)
    assert (read.suite, read.protocol) == ("multilingual", "wmean")
    assert np.array_equal(read.sets[0].predictions.similarities, record.sets[0].predictions.similarities)
    with pytest.raises(InputError, match="is already there"):
        judge_sts(lengths, spanish, folder=tmp_path, suite=MULTILINGUAL)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"suite": "bilingual"}))
    with pytest.raises(InputError, match="field suite: no suite is called 'bilingual'"):
        read_record(path)


def test_a_folder_without_such_records_says_how_to_make_them(make_pairs: MakePairs, tmp_path: Path) -> None:
    write_record(judge_sts(lengths, [make_pairs("stsb", "test")]), tmp_path)
    with pytest.raises(InputError, match=r"no record of the suite multilingual.*--suite multilingual"):
        read_records(tmp_path, suite=MULTILINGUAL)


def test_families_stand_for_their_members(shared_data: Path) -> None:
    pairs = load_sets(["sts17", "stsb"], data_dir=shared_data)
    assert [one.name for one in pairs] == [*MULTILINGUAL.sets, "stsb"]
    with pytest.raises(InputError, match="set sts17-es-es is named twice"):
        load_sets(["sts17-es-es", "sts17"], data_dir=shared_data)
