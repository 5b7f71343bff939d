"""The suite of CONTRIBUTING.md: one module and one registry entry are all that a suite needs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation import compare, evaluate_all, load_records, system_of, to_frame
from sentemb.evaluation.suites import SUITES, Suite
from tests.evaluation.conftest import Letters, letters, make_pairs

CONTRIBUTING = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
MODULE = "sentemb.evaluation.halves"


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> Suite:
    """The suite, made of the two blocks of code."""
    section = CONTRIBUTING.read_text(encoding="utf-8").split("## Add an evaluation suite")[1]
    code, entry = re.findall(r"```python\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
    module = ModuleType(MODULE)
    exec(compile(code, MODULE, "exec"), vars(module))
    monkeypatch.setitem(sys.modules, MODULE, module)
    monkeypatch.setattr(module, "load_scored_pairs", lambda name, data_dir: make_pairs(name, "test"))
    suite: Suite = eval(entry)
    monkeypatch.setitem(SUITES, suite.name, suite)
    return suite


def test_a_suite_is_a_module_and_an_entry(halves: Suite, tmp_path: Path) -> None:
    encoders = Letters(), Letters("other")
    encoders[1].name = "other"
    told: list[str] = []
    for encoder in encoders:
        result = evaluate_all(encoder, suites=["halves"], output=tmp_path, announce=told.append)
        assert result.reused == ()
    assert evaluate_all(encoders[0], suites=["halves"], output=tmp_path).reused == ("halves",)
    pairs = make_pairs("stsb", "test")
    first, second = (np.hstack([np.ones((30, 1)), letters(side)]) for side in (pairs.first, pairs.second))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    expected = 100 * np.mean((cosines > np.median(cosines)) == (pairs.gold > np.median(pairs.gold)))
    records = load_records(tmp_path, suite="halves")
    assert records[0].score("stsb") == records[0].average() == pytest.approx(expected)
    assert any(f"halves: stsb accuracy {expected:.2f}" in line for line in told)
    assert [*to_frame(records)["value"]] == [pytest.approx(expected)] * 2
    found = compare(*(system_of(records, name) for name in ("letters", "other")), draws=100)
    assert (found.measure, found.headline.size) == ("accuracy", 0.0)
    path = tmp_path / records[0].file_name
    values = json.loads(path.read_text())
    values["scores"][0]["value"] += 1
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match="does not match the accuracy of the predictions for stsb"):
        load_records(tmp_path)
