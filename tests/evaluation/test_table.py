from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from sentemb.data.sts import STS_SETS, ScoredPairs
from sentemb.evaluation import evaluate_pairs
from sentemb.evaluation.records import ResultRecord, record_of
from sentemb.evaluation.table import sts_table


def lengths(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), text.count("a"), text.count("e"), 1.0] for text in texts])


@pytest.fixture
def record(make_pairs: Callable[..., ScoredPairs]) -> ResultRecord:
    sets = [
        make_pairs(name, "test", (10, 20), seed=seed) for seed, name in enumerate((*STS_SETS, "sickr-mteb"))
    ]
    return record_of(evaluate_pairs(lengths, sets[::-1]))


def test_columns_rows_and_average(record: ResultRecord) -> None:
    table = sts_table([record, dataclasses.replace(record, model="few", sets=record.sets[-1:])], "wmean")
    assert "Spearman x 100" in table.title
    assert "wmean" in table.title
    assert table.header == (
        "model",
        *("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B"),
        *("SICK-R 30", "SICK-R (MTEB) 30", "average"),
    )
    scores = record.scores("wmean")
    mean = sum(scores[name].spearman for name in STS_SETS) / 7
    expected = [scores[name].spearman for name in (*STS_SETS, "sickr-mteb")]
    assert table.rows[0] == ("lengths", *(f"{value:.2f}" for value in expected), f"{mean:.2f}")
    assert table.rows[1] == ("few", f"{scores['sts12'].spearman:.2f}", *["–"] * 8)
    assert "average" in table.notes[0]


def test_seeds_have_a_column(record: ResultRecord) -> None:
    table = sts_table([record, dataclasses.replace(record, seed=7)])
    assert table.header[1] == "seed"
    assert [row[1] for row in table.rows] == ["–", "7"]


def test_rows_of_different_data_get_a_note(record: ResultRecord) -> None:
    changed = dataclasses.replace(record.sets[0], checksum="0" * 64)
    other = dataclasses.replace(record, sets=(changed, *record.sets[1:]))
    assert any(
        "sickr-mteb: the rows were scored on different" in note for note in sts_table([record, other]).notes
    )
    assert not any("different" in note for note in sts_table([record, record]).notes)


def test_a_protocol_that_is_not_defined_is_a_dash_with_a_note(record: ResultRecord) -> None:
    only_all = dataclasses.replace(record.sets[-1], scores={"all": record.sets[-1].scores["all"]})
    other = dataclasses.replace(record, sets=(*record.sets[:-1], only_all))
    table = sts_table([other], "mean")
    assert table.rows[0][1] == "–"
    assert "average" not in table.header
    assert any("sts12: mean is not defined" in note for note in table.notes)


def test_pearson_and_markdown(record: ResultRecord) -> None:
    table = sts_table([dataclasses.replace(record, model="a|b")], measure="pearson")
    text = table.markdown()
    lines = text.splitlines()
    assert lines[0] == f"**{table.title}**"
    assert lines[2].startswith("| model | STS12 |")
    assert lines[3] == "|---|" + "---:|" * 9
    assert lines[4].startswith(r"| a\|b | ")
    assert f"{record.scores('all')['sts12'].pearson:.2f}" in lines[4]
