"""The program of the survival experiment makes a row per objective of its records."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from sentemb.evaluation.record import load_predictions, load_records, write_record

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "eval" / "results" / "survival" / "tuned"


def test_rows_have_means_differences_and_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [
        one
        for one in load_records(
            [*RECORDS.glob("*-stsb.sts*.json"), *RECORDS.glob("*-stsb-seed-[12].sts*.json")]
        )
        if one.trial and one.trial.method in ("base", "simcse", "sncse")
    ]
    for one in chosen:
        write_record(one, *load_predictions(one), tmp_path)
    (tmp_path / "costs").mkdir()
    costs = tmp_path / "costs" / "costs.json"
    costs.write_text(json.dumps({"rows": {"sncse": {"of_simcse": 1.234}}}))
    output = tmp_path / "table.md"
    words = ["survival.py", str(tmp_path), "--costs", str(costs), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(ROOT / "eval" / "survival.py"), run_name="__main__")
    assert output.read_text() == capsys.readouterr().out.removesuffix("\n")
    rows = [line.strip("| ").split(" | ") for line in output.read_text().splitlines()[2:]]
    means = {
        name: np.mean([one.average() for one in chosen if one.trial and one.trial.method == name])
        for name in ("base", "simcse", "sncse")
    }
    assert [row[0] for row in rows] == sorted(means, key=lambda name: -means[name])
    for name, dev, average, _, from_simcse, from_base, time in rows:
        assert dev == "stsb" and average.split()[0] == f"{means[name]:.1f}"
        assert time == ("1.23" if name == "sncse" else "–")
        for baseline, cell in (("simcse", from_simcse), ("base", from_base)):
            difference = f"{means[name] - means[baseline]:+.1f}"
            assert cell == "–" if name == baseline else cell.split()[0] == difference
