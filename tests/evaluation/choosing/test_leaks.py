from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.evaluation.choosing import find_leaks

OWN = [
    "A short line. Two birds fly over the old red house today. Nobody reads this sentence of mine ever.",
    "The cat sat on the mat in the park.",
]


def test_sentences_are_found_the_same_and_inside(write_file: Callable[[str, str], Path]) -> None:
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


def test_sets_that_are_not_here_are_counted(
    write_file: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    other = str(write_file("other.txt", "another text altogether, of more than six words\n"))
    same = str(write_file("same.txt", OWN[1] + "\n"))
    none, some = find_leaks(OWN, [other, "scifact", "cisi"]), find_leaks(OWN, [same, "scifact"])
    assert none.sentence().endswith(
        "is in 1 known test set; not here, and so not looked into: 2 known test sets"
    )
    assert some.leaks and some.sentence().endswith("; not here, and so not looked into: 1 known test set")
    assert "not here" not in find_leaks(OWN, [other, same]).sentence() + find_leaks(OWN, [other]).sentence()


def test_queries_of_a_known_retrieval_set(shared_data: Path) -> None:
    from sentemb.data import load_retrieval

    data = load_retrieval("cacm", data_dir=shared_data)
    found = find_leaks(
        [data.queries[2], "I wrote this sentence myself, this very morning."], ["cacm"], data_dir=shared_data
    )
    assert [leak.name for leak in found.leaks] == ["cacm"]
