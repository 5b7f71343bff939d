from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb.errors import InputError
from sentemb.search.documents import Document, as_documents
from sentemb.search.prepared import Prepared
from sentemb.search.store import DocumentStore, write_store

identifiers = st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(identifiers, texts, max_size=12))
def test_ids_and_texts_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, items: dict[str | int, str]
) -> None:
    path = tmp_path_factory.mktemp("store") / "documents.sqlite"
    counts = write_store(path, map(Prepared, as_documents(items.items())))
    kept = {key: text for key, text in items.items() if text.strip()}
    assert counts == (len(kept), len(set(kept.values())), len(items) - len(kept), 0, 0)
    store = DocumentStore(path)
    assert store.texts(0, counts.texts) == list(dict.fromkeys(kept.values()))
    owners = store.owners(range(counts.texts), 100)
    found = store.by_number(number for numbers in owners.values() for number in numbers).values()
    assert {(type(row.id), row.id, row.text) for row in found} == {
        (type(key), key, text) for key, text in kept.items()
    }
    store.close()


def test_integer_and_string_ids_differ(tmp_path: Path) -> None:
    counts = write_store(tmp_path / "d", map(Prepared, as_documents([(1, "a"), ("1", "b")])))
    assert counts.documents == 2


def test_metadata_comes_back(tmp_path: Path) -> None:
    metadata = {"tags": ["x", "ÿ"], "year": 1999, "none": None, "deep": {"a": 1.5}}
    write_store(tmp_path / "d", map(Prepared, as_documents([("k", "text", metadata)])))
    assert DocumentStore(tmp_path / "d").by_number([0])[0].metadata == metadata


def test_an_id_given_twice_names_both_places(tmp_path: Path) -> None:
    twice = [Document("a", "k", location="c.csv:2"), Document("b", "k", location="c.csv:9")]
    with pytest.raises(InputError, match=r"'k' occurs twice: in c\.csv:2 and c\.csv:9"):
        write_store(tmp_path / "d", map(Prepared, twice))


@pytest.mark.parametrize("value", [{1, 2}, object()])
def test_metadata_json_cannot_hold_names_the_document(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputError, match="document 0: the metadata"):
        write_store(tmp_path / "d", map(Prepared, as_documents([("k", "text", {"x": value})])))


def test_one_text_of_many_documents_is_cut_at_the_limit(tmp_path: Path) -> None:
    write_store(tmp_path / "d", map(Prepared, as_documents(["same"] * 50)))
    assert DocumentStore(tmp_path / "d").owners([0], 3) == {0: [0, 1, 2]}


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(b"not a database" * 100)
    with pytest.raises(InputError, match=r"the document database .* cannot be read"):
        DocumentStore(tmp_path / "d")


def test_a_full_disk_is_an_os_error() -> None:
    full = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    if full is None:
        pytest.skip("no memory file system")
    resource = pytest.importorskip("resource")
    path = full / "sentemb-test-store.sqlite"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(OSError) as error:
            texts = (f"{number} " * 100 for number in range(5000))
            write_store(path, map(Prepared, as_documents(texts)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        path.unlink(missing_ok=True)
    assert error.value.errno in (errno.ENOSPC, errno.EFBIG, errno.EIO)
    assert error.value.filename == str(path)
