"""Geometry as tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.evaluation.geometry_records import GeometryRecord, judge_geometry
from sentemb.evaluation.geometry_table import geometry_seed_table, geometry_table


@pytest.fixture
def record() -> GeometryRecord:
    generator = np.random.default_rng(0)
    vectors: dict[str, np.ndarray] = {}
    names = [f"sentence {number}" for number in range(120)]
    encoder = load_encoder(
        lambda texts: np.array([vectors.setdefault(text, generator.normal(size=8)) for text in texts])
    )
    pairs = ScoredPairs(
        name="stsb", split="dev", first=names[:60], second=names[60:], gold=np.linspace(0, 5, 60)
    )
    return replace(judge_geometry(encoder, pairs), model="raw")


def scaled(record: GeometryRecord, model: str, factor: float) -> GeometryRecord:
    geometry = type(record.estimate.geometry)(*(factor * value for value in record.estimate.geometry))
    return replace(record, model=model, estimate=replace(record.estimate, geometry=geometry))


def test_an_encoder_has_its_intervals(record: GeometryRecord) -> None:
    estimate = record.estimate
    table = geometry_table([record])
    assert table.rows[0][0] == "raw"
    low, high = estimate.low.alignment, estimate.high.alignment
    assert table.rows[0][1] == f"{estimate.geometry.alignment:.3f} [{low:.3f}, {high:.3f}]"
    assert table.rows[0][-1].endswith(" of 8")
    assert "intervals" in table.notes[0]


def test_seeds_of_a_method_are_one_row(record: GeometryRecord) -> None:
    tuned = [scaled(record, f"tuned-seed-{seed}", seed) for seed in (1, 3)]
    table = geometry_seed_table([record, *tuned, scaled(record, "once-seed-7", 2)])
    assert [row[:2] for row in table.rows] == [("raw", "–"), ("tuned", "2"), ("once", "1")]
    value = record.estimate.geometry.alignment
    assert table.rows[1][2] == f"{2 * value:.3f} ± {value * 2**0.5:.3f}"
    assert table.rows[1][-1].endswith(" of 8")
    assert "[" in table.rows[0][2] and "[" in table.rows[2][2] and "[" not in table.rows[1][2]
    assert table.notes[0].startswith("±") and "intervals" in table.notes[1]


def test_only_seeds_have_no_brackets_to_explain(record: GeometryRecord) -> None:
    tuned = [scaled(record, f"tuned-seed-{seed}", seed) for seed in (1, 3)]
    assert not any("brackets" in note for note in geometry_seed_table(tuned).notes)


def test_other_pairs_are_told(record: GeometryRecord) -> None:
    other = replace(record, model="other", checksum="0")
    assert "do not compare" in geometry_table([record, other]).notes[-1]
    assert "do not compare" in geometry_seed_table([record, other]).notes[-1]
