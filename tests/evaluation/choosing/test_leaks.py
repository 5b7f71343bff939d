from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.evaluation.choosing import find_leaks

OWN = [
    "A short line. Two birds fly over the old red house today. Nobody reads this sentence of mine ever.",
    "The cat sat on the mat in the park.",
]


def test_sentences_are_found_the_same_near_and_inside(write_file: Callable[[str, str], Path]) -> None:
    known = write_file(
        "known.tsv",
        "one\ttwo\ntwo birds fly over the old red house today\tnothing\n"
        "Yesterday the cat sat on the mat in the park. It rained.\ta short line.\n",
    )
    found = find_leaks(OWN, [str(known)])
    assert found.texts == 3 and found.checked == (str(known),)
    (leak,) = found.leaks
    assert leak.texts == 2
    assert f"{known} (2)" in found.sentence()


def test_nothing_found_and_nothing_looked_into(
    write_file: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = write_file("known.txt", "another text altogether, of more than six words\n")
    assert "none of 3 of your sentences" in find_leaks(OWN, [str(known)]).sentence()
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    found = find_leaks(OWN)
    assert not found.checked and "scifact" in found.missing
    assert "was not checked" in found.sentence()


def test_queries_of_a_known_retrieval_set(shared_data: Path) -> None:
    from sentemb.data import load_retrieval

    data = load_retrieval("cacm", data_dir=shared_data)
    found = find_leaks(
        [data.queries[2], "I wrote this sentence myself, this very morning."], ["cacm"], data_dir=shared_data
    )
    assert [leak.name for leak in found.leaks] == ["cacm"]
