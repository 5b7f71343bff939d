"""Documents that variants are calibrated on, and documents that they are evaluated on."""

from __future__ import annotations

import pytest

from sentemb.compression import divide_documents
from sentemb.data.documents import Document


def documents(count: int) -> list[Document]:
    return [Document(f"document {number}", str(number)) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "calibrated", "priced", "shared"),
    [(2000, 600, 500, 0), (1100, 600, 500, 0), (1099, 600, 500, 1), (550, 550, 500, 500), (30, 30, 30, 30)],
)
def test_both_are_apart_as_far_as_there_are_documents(
    count: int, calibrated: int, priced: int, shared: int
) -> None:
    parts = divide_documents(documents(count), seed=1)
    both = {*parts.calibration} & {document.whole for document in parts.evaluation}
    assert (len({*parts.calibration}), len({*parts.evaluation})) == (calibrated, priced)
    assert (len(both), parts.shared) == (shared, shared)


def test_the_seed_decides() -> None:
    first, same, other = (divide_documents(documents(2000), seed=seed) for seed in (1, 1, 2))
    assert first == same != other
