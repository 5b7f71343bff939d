from __future__ import annotations

import re

import pytest

from sentemb.data.catalogue import SPLITS, check_row_count, entries, expand, get
from sentemb.errors import InputError


def test_names_are_unique_and_found() -> None:
    names = [entry.name for entry in entries()]
    assert len(names) == len(set(names)) == 138
    assert all(get(name).name == name for name in names)
    assert {entry.name for entry in entries("triples")} == {"nli-triples", "simcse-nli"}


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_entries_are_complete(entry) -> None:
    assert entry.description and entry.licence and entry.columns
    assert entry.splits and (entry.kind == "labelled" or {*entry.splits} <= {*SPLITS})
    assert entry.senteval or entry.layouts or entry.derived_from
    if entry.hub_id:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry.hub_id)
        assert entry.revision is None or re.fullmatch(r"[0-9a-f]{40}", entry.revision)
        assert {*entry.files} == {*entry.splits}
    if entry.parts:
        assert sum(entry.parts.values()) == entry.rows["test"]
    if entry.citation:
        assert re.match(r"@\w+\{[\w-]+,", entry.citation)
        assert entry.citation.count("{") == entry.citation.count("}")
        assert "\\\\" not in entry.citation
    assert all(count > 0 for count in [*entry.rows.values(), *entry.parts.values()])


@pytest.mark.parametrize("entry", entries("labelled"), ids=lambda entry: entry.name)
def test_labelled_entries_are_complete(entry) -> None:
    assert entry.columns[-1] == "label" and len(entry.text_columns) in (1, 2)
    assert {*entry.unlabelled} <= {*entry.splits} != {*entry.unlabelled}
    assert len({*entry.labels}) == len(entry.labels) != 1
    published = entry.published
    if published is None:
        assert {*entry.files} == {*entry.splits}
    elif published.format == "file-per-label":
        assert {*published.files} == {*entry.labels}
    else:
        assert {*entry.rows} <= {*published.files}
        assert len(published.columns or entry.columns) == len(entry.columns)
        assert len(published.spellings or entry.labels) == len(entry.labels)


def test_families_share_a_table_and_are_no_sets_themselves() -> None:
    german = get("sts22-de")
    assert (german.family, german.config, german.rows) == ("sts22", "de", {"test": 514})
    assert german.hub_id == get("sts22-de-en").hub_id == "mteb/sts22-crosslingual-sts"
    assert get("sts17-es-en-wmt").hub_id is None  # track 4b, which that repository lacks
    assert expand(["sts17", "stsb"])[:2] == ["sts17-ar-ar", "sts17-ar-en"]
    assert [len(expand([family])) for family in ("sts17", "sts22", "stsb-multi-mt", "stsb")] == [7, 18, 10, 1]
    with pytest.raises(InputError, match="sts17 is a family of data sets; name one of sts17-ar-ar, "):
        get("sts17")


@pytest.mark.parametrize(
    ("name", "fragment"),
    [("stbs", "did you mean 'stsb'?"), ("imagenet", "list the names with `sentemb data list`")],
)
def test_unknown_names(name: str, fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        get(name)
    assert fragment in str(caught.value)


def test_counts_that_differ_are_spelled_out() -> None:
    check_row_count("stsb test", 1379, 1379)
    with pytest.raises(InputError, match=r"^stsb test has 1,377 rows instead of 1,379: 2 missing; "):
        check_row_count("stsb test", 1377, 1379)
    with pytest.raises(InputError, match=r"1,380 rows instead of 1,379: 1 more than expected"):
        check_row_count("stsb test", 1380, 1379)
