"""Ceilings: what they refuse, and what they say."""

from __future__ import annotations

import pytest

from sentemb.errors import InputError
from sentemb.limits import limit, refuse_above


def test_an_amount_above_a_ceiling_is_refused_with_its_place_and_a_hint() -> None:
    refuse_above("line", limit("line"), "a.txt, line 2")
    with pytest.raises(
        InputError, match=r"^a.txt, line 2: more than 64 MiB in a line of text; split it into several lines$"
    ):
        refuse_above("line", 64.1, "a.txt, line 2", "split it into several lines")
    with pytest.raises(InputError, match=r"draws=2,000,000: more than 1,000,000 resamples .*; lower it$"):
        refuse_above("draws", 2_000_000, "draws=2,000,000")
