"""Limits on the number of sentemb files that a call runs through and a maintainer has to open."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sentemb
from sentemb.search import SearchIndex
from tests.search.bag_of_words import BagOfWords

PACKAGE = str(Path(sentemb.__file__).parent)


def files_of(call: Callable[[], object]) -> set[str]:
    """Return the files whose functions run in a call."""
    seen: set[str] = set()

    def note(frame: object, event: str, argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            seen.add(code.co_filename.removeprefix(PACKAGE))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return seen


@pytest.mark.parametrize(("what", "most"), [("search", 8), ("filter", 9), ("add", 9), ("build", 18)])
def test_a_call_is_followed_through_few_files(tmp_path: Path, what: str, most: int) -> None:
    documents = [(n, f"w{n} w{n + 1}", {"n": n}) for n in range(60)]
    SearchIndex.build(documents, BagOfWords()).save(tmp_path / "index")
    index = SearchIndex.load(tmp_path / "index", BagOfWords())
    index.search("w3", 3)
    calls: dict[str, Callable[[], object]] = {
        "search": lambda: index.search("w3", 3),
        "filter": lambda: index.search("w3", 3, where={"n": {">": 4}}),
        "add": lambda: index.add([("new", "w5")]),
        "build": lambda: SearchIndex.build(["a cat", "a dog"], BagOfWords()),
    }
    found = files_of(calls[what])
    assert len(found) <= most, sorted(found)
