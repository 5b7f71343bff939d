from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.search.folder import check_output, open_folder
from sentemb.search.manifest import Manifest
from tests.search.bag_of_words import BagOfWords


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "index"
    SearchIndex.build([f"w{n}" for n in range(50)], BagOfWords(), kind="hnsw").save(folder)
    return folder


def damage(path: Path, change: Callable[[bytes], bytes]) -> Callable[[], None]:
    content = path.read_bytes()
    path.write_bytes(change(content))
    return lambda: path.write_bytes(content) and None


def test_folder_holds_three_files(saved: Path) -> None:
    manifest = open_folder(saved, lambda manifest: manifest, verify=True)
    names = {"manifest.json", *(stored.name for stored in manifest.files.values())}
    assert {path.name for path in saved.iterdir()} == names
    assert all(path.stat().st_mode & 0o444 == 0o444 & ~_umask() for path in saved.iterdir())
    assert manifest == Manifest.read(saved)


def test_an_index_of_a_model_without_a_longest_input_is_saved(tmp_path: Path) -> None:
    SearchIndex.build(["a cat sat", "birds fly"], "static-mini").save(tmp_path / "index")
    (hit,) = SearchIndex.load(tmp_path / "index").search("bird", k=1)
    assert hit.text == "birds fly"


@settings(max_examples=120)
@given(which=st.integers(0, 2), where=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_any_changed_byte_is_found(saved: Path, which: int, where: float, bits: int) -> None:
    path = sorted(saved.iterdir())[which]

    def flip(content: bytes) -> bytes:
        place = int(where * len(content))
        return content[:place] + bytes([content[place] ^ bits]) + content[place + 1 :]

    restore = damage(path, flip)
    try:
        with pytest.raises(InputError) as error:
            SearchIndex.load(saved, BagOfWords())
    finally:
        restore()
    assert path.name in str(error.value) or "manifest.json" in str(error.value)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(
    "change", [lambda content: b"", lambda content: content[:-1], lambda content: content + b"\0"]
)
def test_a_file_of_another_length_is_named(
    saved: Path, which: int, verify: bool, change: Callable[[bytes], bytes]
) -> None:
    path = sorted(saved.iterdir())[which]
    restore = damage(path, change)
    try:
        with pytest.raises(InputError, match=path.name):
            SearchIndex.load(saved, BagOfWords(), verify=verify)
    finally:
        restore()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_missing_file_is_named(saved: Path, which: int) -> None:
    path = sorted(saved.iterdir())[which]
    content = path.read_bytes()
    path.unlink()
    try:
        with pytest.raises(InputError, match=f"{path.name} is missing"):
            SearchIndex.load(saved, BagOfWords())
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "is not the manifest of an index"),
        ("{}", "is not the manifest of an index"),
        ('{"format": 7}', "has the format 7, but this version of sentemb reads formats 1 to 6"),
        ('{"format": 1, "checksum": ""}', "does not match its checksum"),
        ('{"format": 1, "checksum": "", "dimension": 1e999}', "does not match its checksum"),
        ("é", "does not match its checksum"),
    ],
)
def test_other_manifests_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        Manifest.read(tmp_path)


def test_a_manifest_cannot_point_outside_its_folder(saved: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(saved)
    name = f"../{saved.name}/{manifest.files['vectors'].name}"
    vectors = type(manifest.files["vectors"])(name, 1, "0" * 64)
    dataclasses.replace(manifest, files={**manifest.files, "vectors": vectors}).write(tmp_path)
    with pytest.raises(InputError, match="outside its folder"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"effort": "many"}, "manifest.json, effort: "),
        ({"recall": [1]}, "manifest.json, recall: "),
        ({"kind": "tree"}, "manifest.json, kind: "),
        ({"files": {}}, "does not list its files"),
        ({"dimension": 7}, "the vectors of .* do not match the manifest"),
    ],
)
def test_a_sealed_manifest_with_impossible_values_is_refused(
    saved: Path, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    folder = shutil.copytree(saved, tmp_path / "index")
    dataclasses.replace(Manifest.read(saved), **change).write(folder)
    with pytest.raises(InputError, match=words):
        SearchIndex.load(folder, BagOfWords())


def test_no_folder_and_a_file_instead(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r".*none is not an index"):
        SearchIndex.load(tmp_path / "none", BagOfWords())
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file, not an index folder"):
        SearchIndex.load(tmp_path / "file", BagOfWords())


def test_output_that_cannot_be_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already contains an index; pass --overwrite"):
        check_output(saved, overwrite=False)
    check_output(saved, overwrite=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        check_output(tmp_path / "file", overwrite=True)
    with pytest.raises(InputError, match="is not empty and not an index: it contains file"):
        check_output(tmp_path, overwrite=True)
    check_output(tmp_path / "new" / "deeper", overwrite=False)
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(InputError, match="is not writable"):
            check_output(tmp_path / "locked" / "index", overwrite=False)


@pytest.mark.parametrize("fails_at", range(5))
def test_a_full_disk_leaves_the_old_index(
    saved: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """The disk is full from each of the steps on: the vectors, the documents, the manifest."""
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    new = SearchIndex.build(["w1", "w2"], BagOfWords())
    calls = 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        new.save(saved, overwrite=True)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_a_file_size_limit_stops_faiss_without_a_trace(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    index = SearchIndex.build([f"w{n}" for n in range(4000)], BagOfWords(dimension=256))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(OSError) as error:
            index.save(tmp_path / "index")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.value.errno == errno.EFBIG
    assert not (tmp_path / "index").exists()


def test_an_overwrite_removes_what_a_death_left(saved: Path) -> None:
    for name in (f"vectors-{'0' * 16}.faiss", f"documents-{'0' * 16}.sqlite", ".vectors.17.partial"):
        (saved / name).write_bytes(b"left")
    (saved / "README").write_text("the user's own")
    SearchIndex.build([f"w{n}" for n in range(50)], BagOfWords(), kind="hnsw").save(saved, overwrite=True)
    assert len(list(saved.iterdir())) == 4
    assert (saved / "README").exists()
    (saved / "README").unlink()


def test_manifest_says_what_matters(saved: Path) -> None:
    value = json.loads((saved / "manifest.json").read_text())
    assert value["encoder"]["fingerprint"] == "words-1"
    assert value["dimension"] == 32 and value["metric"] == "cosine" and value["kind"] == "hnsw"
    assert value["documents"] == value["vectors"] == 50
    assert {"sentemb", "faiss"} <= set(value["versions"])


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
