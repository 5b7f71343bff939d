from __future__ import annotations

from itertools import chain

import pytest

from sentemb.data.positive_pairs import PairBatches, pair_batches


def conflicting(rows: list[tuple[str, ...]]) -> bool:
    """Whether a text of one row is another row's question or answer, or another answer to its question."""
    positives: dict[str, set[str]] = {}
    for anchor, positive, *_ in FAQ:
        positives.setdefault(anchor, set()).add(positive)
    return any({one[0], *positives[one[0]]} & {*other} for one in rows for other in rows if one is not other)


FAQ = [
    *((f"q{number}", f"a{number % 12}", f"a{(number + 1) % 12}") for number in range(60)),
    *((f"q{number}", f"a{(number + 5) % 12}", "n") for number in range(0, 60, 4)),
]


@pytest.mark.parametrize("columns", [2, 3])
def test_no_known_positive_is_a_negative_in_its_batch(columns: int) -> None:
    rows = [row[:columns] for row in FAQ]
    batches = PairBatches(*zip(*(row[:2] for row in rows), strict=True), [row[2:] for row in rows], 8)
    seen: list[int] = []
    for epoch in range(8):
        batches.set_epoch(epoch)
        drawn = list(batches)
        assert len(drawn) == len(batches)
        assert all(0 < len(batch) <= 8 and not conflicting([rows[row] for row in batch]) for batch in drawn)
        places = [row for batch in drawn for row in batch]
        assert len(places) == len(set(places))
        seen += places
    assert {*seen} == {*range(len(rows))}


def test_pairs_without_repeated_texts_fill_their_batches_in_another_order_every_epoch() -> None:
    from datasets import Dataset

    data = Dataset.from_dict(
        {"anchor": [f"q{n}" for n in range(21)], "positive": [f"a{n}" for n in range(21)]}
    )
    batches = pair_batches(data, 8, drop_last=False, seed=3)
    first = list(batches)
    assert sorted(map(len, first)) == [5, 8, 8] and sorted(chain(*first)) == [*range(21)]
    assert list(batches) == first
    batches.set_epoch(1)
    assert list(batches) != first


def test_fewer_passages_than_rows_in_a_batch_make_more_batches() -> None:
    batches = PairBatches([f"q{n}" for n in range(30)], [f"a{n % 3}" for n in range(30)], [()] * 30, 8)
    drawn = list(batches)
    assert len(drawn) == len(batches) == 10
    assert sorted(chain(*drawn)) == [*range(30)]
