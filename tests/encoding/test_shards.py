"""Shards: the same bytes from any workers, rows without a vector named, damage refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb import _machine
from sentemb.encoding import load_encoder, shards
from sentemb.encoding.shards import BEGUN, MANIFEST, Encoded, Row, ShardFolder, encode_shards
from sentemb.encoding.workers import local_pool
from sentemb.errors import InputError
from tests.search.test_walks import files_of

TEXTS = [f"text number {number} of {number % 7} kinds" for number in range(100)]
MODEL = {"model": "static-mini"}


def rows(texts: list[Any] = TEXTS) -> Iterator[Row]:
    for number, text in enumerate(texts):
        identifier: str | int = number if number % 2 else f"name{number}"
        yield Row(identifier, text, {"kind": number % 7, "name": "ü"}, f"docs.csv:{number + 2}")


def encode(output: Path, texts: list[Any] = TEXTS, **changes: Any) -> Encoded:
    settings: dict[str, Any] = {"source": "docs.csv", "shard_size": 16, **changes}
    return encode_shards(rows(texts), output, settings.pop("model", MODEL), **settings)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_gives_back_what_was_encoded(tmp_path: Path) -> None:
    found = encode(tmp_path / "vectors")
    assert (len(found.folder), found.refused, found.encoded) == (100, 0, 100)
    folder = ShardFolder(tmp_path / "vectors")
    folder.verify()
    batches = list(folder.batches(10))
    assert max(len(batch.ids) for batch in batches) == 10
    ids = [name for batch in batches for name in batch.ids]
    assert ids == [row.id for row in rows()]
    assert [one["kind"] for batch in batches for one in batch.metadata] == [n % 7 for n in range(100)]
    vectors = np.concatenate([batch.vectors for batch in batches])
    np.testing.assert_array_equal(vectors, load_encoder("static-mini").encode(TEXTS))


def test_two_processes_and_an_interrupted_one_make_the_same_bytes(tmp_path: Path) -> None:
    encode(tmp_path / "one")
    encode(tmp_path / "two", pool=local_pool(2))
    assert content(tmp_path / "one") == content(tmp_path / "two")

    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path / "three", progress=_interrupt)
    with pytest.raises(
        InputError, match=r"does not contain finished vectors.*run the same `sentemb encode` command again"
    ):
        ShardFolder(tmp_path / "three")
    assert encode(tmp_path / "three").encoded == 100 - 48
    assert content(tmp_path / "one") == content(tmp_path / "three")
    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path / "four", progress=_interrupt)
    encode(tmp_path / "four", TEXTS[3:])  # rows that do not exist any more leave no shard
    encode(tmp_path / "fresh", TEXTS[3:])
    assert content(tmp_path / "four") == content(tmp_path / "fresh")


def test_processors_of_several_kinds_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    here = encode(tmp_path / "one", say=said.append)
    assert here.folder.processors == [_machine.describe_processor()] and not said

    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path / "two", progress=_interrupt)
    monkeypatch.setattr(_machine, "arithmetic", lambda: "another")  # resumed on another machine
    resumed = encode(tmp_path / "two", say=said.append)
    assert resumed.folder.processors == sorted([*here.folder.processors, _machine.describe_processor()])
    (line,) = said
    assert "different processors" in line and "agree to about 1e-5" in line


def test_rows_without_a_vector_are_named(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("small 1 2\nlarge 1e6 2\n")
    texts = ["small", " ", None, "large", "half \ud800", "small large"]
    found = encode(tmp_path / "vectors", texts, model={"model": str(tmp_path / "words.txt")}, dtype="float16")
    assert (len(found.folder), found.refused) == (1, 5)
    aside = [json.loads(line) for line in (tmp_path / "vectors" / "set-aside.jsonl").read_text().splitlines()]
    assert [(one["location"], one["reason"]) for one in aside] == [
        ("docs.csv:3", "the text is blank"),
        ("docs.csv:4", "the text is a NoneType, not a string"),
        ("docs.csv:5", "its vector exceeds the range of float16"),
        ("docs.csv:6", "the text contains an unpaired surrogate, which is not a valid character"),
        ("docs.csv:7", "its vector exceeds the range of float16"),
    ]


def test_a_worker_that_sees_another_folder_is_refused(tmp_path: Path) -> None:
    encode(tmp_path / "elsewhere" / "vectors")

    @contextlib.contextmanager
    def on_another_machine(make: Any, *, say: Any) -> Iterator[Any]:
        model, folder, *others = make.args
        make.func(model, folder, *others, 1)  # here it is seen
        make.func(model, tmp_path / "elsewhere" / folder.name, *others, 1)
        yield

    with pytest.raises(
        InputError, match=r"cannot find .*elsewhere.vectors, .* the same path on all machines"
    ):
        encode(tmp_path / "vectors", pool=on_another_machine)
    assert not (tmp_path / "vectors").exists()


def _interrupt(done: int) -> None:
    if done > 40:
        raise KeyboardInterrupt


def test_damage_is_named(tmp_path: Path) -> None:
    folder = encode(tmp_path / "vectors").folder
    manifest = folder.path / MANIFEST
    before = manifest.read_text()

    def refused(said: str) -> None:
        with pytest.raises(InputError, match=said):
            list(ShardFolder(folder.path).batches())

    for old, new, said in (
        ('"dimension": 256', '"dimension": 9', r"shard-.*arrow is damaged"),
        ('"model": "static-mini"', '"no": "model"', r"shards\.json is damaged: .*'model'"),
        ('"file": "', '"file": "../', r"shards\.json is damaged"),
        (before, "{}", r"shards\.json is damaged"),
    ):
        assert old in before
        manifest.write_text(before.replace(old, new))
        refused(said)
    manifest.write_text(before)
    folder.files[1].write_bytes(folder.files[1].read_bytes()[:-2000])
    refused(r"shard-.*arrow is damaged")
    folder.files[1].unlink()
    refused(r"shard-.*arrow is missing")
    with pytest.raises(InputError, match="is missing or does not match its checksum"):
        folder.verify()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    encode(tmp_path / "vectors")
    with pytest.raises(InputError, match="already contains finished vectors"):
        encode(tmp_path / "vectors")
    with pytest.raises(InputError, match="is not empty"):
        encode(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path / "begun", progress=_interrupt)
    assert (tmp_path / "begun" / BEGUN).exists()
    with pytest.raises(InputError, match="an interrupted run with a different dtype, shard_size"):
        encode(tmp_path / "begun", dtype="float16", shard_size=7)
    with pytest.raises(
        InputError, match=r"docs\.csv does not contain a row that can be encoded; docs\.csv:2: "
    ):
        encode(tmp_path / "blank", ["", " "])
    assert not (tmp_path / "blank").exists()


def test_a_run_is_followed_through_few_files(tmp_path: Path) -> None:
    load_encoder("static-mini").encode(TEXTS)
    _machine.describe_processor()
    found = files_of(lambda: encode(tmp_path / "vectors"))
    # Loading a model is the business of modules/, with what it needs for several versions upstream.
    assert len({file for file in found if not file.startswith(("/modules/", "/_compat"))}) <= 10, sorted(
        found
    )


def test_a_repeated_id_is_found_in_any_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_IDS_AT_ONCE", 3)
    rows = [
        Row(key, "a text", {}, f"line {line}") for line, key in enumerate((0, 1, "1", 2, 3, 4, 5, 1, 0), 1)
    ]
    assert list(shards.refuse_repeated_ids(rows[:7])) == rows[:7]  # the integer 1 and the string "1" differ
    for some, message in (
        (rows, "line 8: the id 1 occurs twice"),
        ([*rows[4:6], rows[5]], "line 6: the id 4"),
    ):
        with pytest.raises(InputError, match=message):
            list(shards.refuse_repeated_ids(some))
