from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest
from sentemb.evaluation.choosing.trust import FILE, measured_trust


def test_what_is_quoted_follows_from_the_taus_of_the_sets() -> None:
    file = resources.files("sentemb.evaluation.choosing").joinpath(FILE)
    taus = json.loads(file.read_text(encoding="utf-8"))["tau"]
    trust = measured_trust()
    assert trust.sets == len(taus) and trust.systems >= 8
    assert trust.tau == pytest.approx(np.mean([*taus.values()]), abs=1e-3)
    assert trust.lowest == taus[trust.lowest_set] == min(taus.values())
    assert trust.interval[0] < trust.tau < trust.interval[1]
    assert f"tau {trust.tau:.2f}" in trust.sentence() and trust.lowest_set in trust.sentence()
