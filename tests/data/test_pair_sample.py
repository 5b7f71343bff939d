from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.data.positive_pairs import draw_pairs
from sentemb.errors import InputError


@pytest.fixture
def table(write_file: Callable[[str, str], Path]) -> Path:
    rows = "".join(f"p{number}\th{number}\tneutral\n" for number in [*range(20), *range(5)])
    return write_file("nli.tsv", f"premise\thypothesis\tlabel\n{rows}")


def test_different_pairs_stay_together_and_in_order(table: Path) -> None:
    columns = ("premise", "hypothesis")
    first, second = draw_pairs(table, columns, count=12, seed=3)
    numbers = [int(text[1:]) for text in first]
    assert second == [f"h{number}" for number in numbers]
    assert numbers == sorted(set(numbers)) and len(numbers) == 12
    assert draw_pairs(table, columns, count=12, seed=3) == (first, second)
    assert draw_pairs(table, columns, count=12, seed=4)[0] != first
    assert draw_pairs(table, columns, count=20)[0] == [f"p{number}" for number in range(20)]


def test_too_few_pairs_or_columns_are_named(table: Path) -> None:
    with pytest.raises(InputError, match=r"21 pairs from the 20 unique pairs of .*nli\.tsv"):
        draw_pairs(table, ("premise", "hypothesis"), count=21)
    with pytest.raises(InputError, match="only one text column, premise"):
        draw_pairs(table, ("premise",), count=1)
