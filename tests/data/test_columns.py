from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.data import columns as columns_module
from sentemb.data.columns import load_columns
from sentemb.data.sources import describe_source
from sentemb.errors import InputError

WriteFile = Callable[[str, str | bytes], Path]


def test_order_decides_the_roles(write_file: WriteFile) -> None:
    path = write_file("triples.csv", "negative,anchor,positive,id\nn,a,p,1\nm,b,q,2\n")
    dataset = load_columns(path, ["anchor", "positive", "negative"])
    assert dataset.column_names == ["anchor", "positive", "negative"]
    assert dataset[1] == {"anchor": "b", "positive": "q", "negative": "m"}


def test_labels_are_numbers_in_their_own_column(write_file: WriteFile) -> None:
    path = write_file("pairs.jsonl", '{"s": 4, "a": "x", "b": "y"}\n{"a": "u", "b": "v", "s": 2.5}\n')
    dataset = load_columns(path, ["a", "b"], label="s")
    assert dataset.column_names == ["a", "b", "label"]
    assert dataset["label"][:] == [4.0, 2.5]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\ntwo\n", ["text"]),
        ("a.csv", "premise\none\n", ["premise"]),
        ("a.tsv", "id\tsentence\n1\tone\n", ["sentence"]),
    ],
)
def test_columns_that_need_no_naming(
    write_file: WriteFile, name: str, content: str, expected: list[str]
) -> None:
    assert load_columns(write_file(name, content)).column_names == expected


def test_catalogued_sets_know_their_columns(shared_data: Path) -> None:
    triples = load_columns("nli-triples", data_dir=shared_data)
    assert (triples.column_names, len(triples)) == (["sent0", "sent1", "hard_neg"], 14001)
    sentences = load_columns("stsb-sentences", data_dir=shared_data)
    assert (sentences.column_names, len(sentences)) == (["text"], 17256)
    scored = load_columns("stsb", data_dir=shared_data, label="score")
    assert (scored.column_names, len(scored)) == (["sentence1", "sentence2", "label"], 5749)
    few = load_columns("wiki-sentences", data_dir=shared_data, limit=100)
    assert len(few) == 100


def test_large_sources_are_mapped_from_a_file(write_file: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_file("many.txt", "".join(f"sentence {n}\n" for n in range(30_000)))
    in_memory = load_columns(path)
    monkeypatch.setattr(columns_module, "_MEMORY", 100_000)
    mapped = load_columns(path)
    assert in_memory.cache_files == []
    assert len(mapped.cache_files) == 1
    assert mapped["text"][:] == in_memory["text"][:] == [f"sentence {n}" for n in range(30_000)]


def test_the_mapped_file_goes_with_the_process(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("".join(f"sentence {n}\n" for n in range(20_000)))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = (
        "from sentemb.data import columns; columns._MEMORY = 1000\n"
        "import os, sys; data = columns.load_columns(sys.argv[1])\n"
        "print(len(data), len(os.listdir(sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "many.txt"), str(scratch)],
        env=os.environ | {"TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["20000", "1"]
    assert list(scratch.iterdir()) == []


def test_a_changed_file_is_read_again(write_file: WriteFile) -> None:
    assert load_columns(write_file("a.txt", "old\n"))["text"][:] == ["old"]
    assert load_columns(write_file("a.txt", "new\n"))["text"][:] == ["new"]


@pytest.mark.parametrize(
    ("name", "content", "columns", "options", "fragment"),
    [
        (
            "a.csv",
            "x,y\n1,2\n",
            None,
            {},
            "has the columns x, y; name the text columns with --columns in the order",
        ),
        ("a.csv", "text,y\na,2\n", ["txt"], {}, "does not have a column 'txt'; its columns are text, y"),
        ("a.csv", "text,y\na,2\n ,3\n", ["text"], {}, "a.csv:3: column 'text' is empty; remove the row"),
        ("a.csv", "text,y\na,entailment\n", ["text"], {"label": "y"}, "but found 'entailment'"),
        ("a.csv", "text,y\na,1\n", ["text", "text"], {}, "name each column once"),
        ("a.csv", "text,y\na,1\n", "text", {}, "write ['text']"),
        ("a.csv", "label,y\na,1\n", ["label"], {"label": "y"}, "used as a text column and as the label"),
        ("a.csv", "text,y\na,1\n", [], {}, "the text columns are (none)"),
        ("a.txt", "a\n", None, {"limit": 0}, "a limit of 0 rows"),
        ("a.txt", "", None, {}, "a.txt is empty"),
        ("a.jsonl", '{"text": "a"}\n{"txt": "b"}\n', None, {}, "a.jsonl:2 does not have a column 'text'"),
        ("a.txt", "a\n", None, {"label": "score"}, "a.txt:1 does not have a column 'score'"),
        ("a.csv", "text\na\n", ["sentence1"], {"label": "score"}, "a.csv does not have a column 'score'"),
        ("a.jsonl", '{"text": ["a"]}\n', ["text"], {}, "expected a text in column 'text', but found ['a']"),
    ],
)
def test_user_errors(
    write_file: WriteFile, name: str, content: str, columns: list[str] | None, options: dict, fragment: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_columns(write_file(name, content), columns, **options)
    assert fragment in str(caught.value)


def test_checksums_for_the_record(write_file: WriteFile, shared_data: Path) -> None:
    content = b"one\ntwo\n"
    path = write_file("folder/a.txt", content)
    digest = hashlib.sha256(content).hexdigest()
    expected = {"path": "a.txt", "bytes": len(content), "sha256": digest}
    assert describe_source(path, rows=2) == {"source": "a.txt", "files": [expected], "rows": 2}
    assert describe_source(path.parent)["files"] == [expected]
    stsb = describe_source("stsb-sentences", data_dir=shared_data)
    names = [Path(file["path"]).name for file in stsb["files"]]
    assert names == ["sts-dev.csv", "sts-test.csv", "sts-train.csv"]
    json.dumps(stsb, allow_nan=False)
