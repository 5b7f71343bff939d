"""The catalogue's entries are complete; unknown names and other counts are explained."""

from __future__ import annotations

import re

import pytest

from sentemb.data.catalogue import SPLITS, check_row_count, entries, expand, get
from sentemb.errors import InputError


def test_entries_are_complete() -> None:
    assert len({entry.name for entry in entries()}) == len(entries()) == 132
    assert {entry.name for entry in entries("triples")} == {"nli-triples", "simcse-nli"}
    for entry in entries():
        assert get(entry.name).name == entry.name
        assert entry.description and entry.licence and entry.columns
        assert entry.splits and (entry.kind == "labelled" or {*entry.splits} <= {*SPLITS})
        assert entry.senteval or entry.layouts or entry.derived_from
        if entry.hub_id:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry.hub_id)
            assert entry.revision is None or re.fullmatch(r"[0-9a-f]{40}", entry.revision)
            assert {*entry.files} == {*entry.splits}
        assert not entry.parts or sum(entry.parts.values()) == entry.rows["test"]
        if entry.citation:
            assert re.match(r"@\w+\{[\w-]+,", entry.citation) and "\\\\" not in entry.citation
            assert entry.citation.count("{") == entry.citation.count("}")
        assert all(count > 0 for count in [*entry.rows.values(), *entry.parts.values()])
        if entry.kind == "labelled":
            labels, published = {*entry.labels}, entry.published
            assert entry.columns[-1] == "label" and len(entry.text_columns) in (1, 2)
            assert {*entry.unlabelled} < {*entry.splits} and len(labels) == len(entry.labels) != 1
            if published is None:
                assert {*entry.files} == {*entry.splits}
            elif published.format == "file-per-label":
                assert {*published.files} == labels
            else:
                assert {*entry.rows} <= {*published.files}
                assert len(published.columns or entry.columns) == len(entry.columns)
                assert len(published.spellings or labels) == len(labels)


def test_families_share_a_table_and_are_not_sets_themselves() -> None:
    german = get("sts22-de")
    assert (german.family, german.config, german.rows) == ("sts22", "de", {"test": 514})
    assert german.hub_id == get("sts22-de-en").hub_id == "mteb/sts22-crosslingual-sts"
    assert get("sts17-es-en-wmt").hub_id is None  # track 4b, which that repository lacks
    assert expand(["sts17", "stsb"])[:2] == ["sts17-ar-ar", "sts17-ar-en"]
    assert [len(expand([family])) for family in ("sts17", "sts22", "stsb-multi-mt", "stsb")] == [7, 18, 10, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get("imagenet"), "list the names with `sentemb data list`"),
        (lambda: check_row_count("a test", 1377, 1379), "^a test has 1,377 rows instead of 1,379: 2 missing"),
        (lambda: check_row_count("a test", 1380, 1379), "1,380 rows instead of 1,379: 1 more than expected"),
    ],
)
def test_errors(call, message: str) -> None:
    check_row_count("a test", 1379, 1379)
    with pytest.raises(InputError, match=message):
        call()
