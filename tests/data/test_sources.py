"""Rows of every format, packed or not, in files and folders; broken input is one clear error."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import json
import logging
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb._files import sha256_of
from sentemb.data.columns import load_columns, write_table
from sentemb.data.documents import read_unique_documents
from sentemb.data.labelled import read_labelled
from sentemb.data.pairs import load_positive_pairs
from sentemb.data.sources import describe_source, kind_of, read_rows
from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError
from sentemb.limits import LIMITS

WriteFile = Callable[[str, str | bytes], Path]


def texts(source: Path | str, column: str = "text", **options: object) -> list[str]:
    return [record.text(column) for record in read_rows(source, **options)]


def parquet_bytes(columns: dict[str, list[object]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def bytes_in_text() -> bytes:
    """Return a table whose string column has bytes that are not UTF-8, which Arrow writes without a look."""
    return parquet_bytes({"text": pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())})


CONTENT: dict[str, bytes] = {
    ".txt": "ein Satz\nnoch “einer”\n".encode(),
    ".csv": 'id,text\n1,ein Satz\n2,"noch “einer”"\n'.encode(),
    ".tsv": "text\tid\nein Satz\t1\nnoch “einer”\t2\n".encode(),
    ".jsonl": '{"text": "ein Satz", "id": 1}\n{"id": 2, "text": "noch “einer”"}\n'.encode(),
    ".parquet": parquet_bytes({"id": [1, 2], "text": ["ein Satz", "noch “einer”"]}),
}
PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("suffix", CONTENT)
def test_every_format_packed_and_plain(write_file: WriteFile, suffix: str, packing: str) -> None:
    path = write_file(f"docs{suffix}{packing.upper()}", PACKERS[packing](CONTENT[suffix]))
    records = list(read_rows(path, columns=["text"]))
    assert [record.values for record in records] == [{"text": "ein Satz"}, {"text": "noch “einer”"}]
    first = 2 if suffix in (".csv", ".tsv") else 1
    assert [record.location for record in records] == [f"{path}:{first}", f"{path}:{first + 1}"]
    if suffix != ".txt":
        assert [list(r.values) for r in read_rows(path, columns=["text", "id"])] == [["text", "id"]] * 2
        assert {*next(read_rows(path)).values} == {"id", "text"}


def test_only_line_feeds_end_lines(write_file: WriteFile) -> None:
    lines = ["one\u0085more", "form\x0cfeed", "line\u2028separator", "carriage\rreturn", "last"]
    assert texts(write_file("plain.txt", "\n".join(lines))) == lines
    assert texts(write_file("windows.txt", "a\r\nb\r\n")) == ["a", "b"]
    for name, content in (("a.txt", "a\n"), ("a.csv", "text\na\n"), ("a.jsonl", '{"text": "a"}\n')):
        assert texts(write_file(name, f"\ufeff{content}")) == ["a"]  # a byte order mark is not text


def test_blank_lines_are_counted_and_keep_the_numbers_right(
    write_file: WriteFile, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_file("docs.txt", "a\n\n \t\nb\n")
    with caplog.at_level(logging.WARNING):
        assert [record.location for record in read_rows(path)] == [f"{path}:1", f"{path}:4"]
    assert "skipped 2 blank lines" in caplog.text


def test_very_long_lines(write_file: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "wort " * 700_000  # 3.5 million characters: longer than a block, and than csv's default limit
    assert texts(write_file("long.txt", f"a\n{long}\nb")) == ["a", long, "b"]
    assert texts(write_file("long.csv", f"text\n{long}\n")) == [long]
    monkeypatch.setitem(LIMITS, "line", (1, "MiB in a line of text"))
    with pytest.raises(InputError, match=r"long\.txt, line 2: more than 1 MiB .*; split it into several lin"):
        texts(write_file("long.txt", "a\n" + "b" * (1 << 20) + "\n"))


def test_separators_of_spreadsheets_are_recognised(write_file: WriteFile) -> None:
    for mark in ";\t|":
        path = write_file("docs.csv", f'id{mark}text\n1{mark}"a{mark} b, c"\n')
        assert [row.values for row in read_rows(path)] == [{"id": "1", "text": f"a{mark} b, c"}]
    path = write_file("docs.csv", 'id;"text, in full";note\n1;a, b;c\n')
    assert [*next(read_rows(path)).values.values()] == ["1", "a, b", "c"]
    assert texts(write_file("docs.csv", '"yes; no"\na; b\n'), "yes; no") == ["a; b"]


PAGES = {
    "hashes.md": ("# Copy files #\n\nUse `cp`.\n", "Copy files", "Use `cp`."),
    "underlined.md": ("Copy files\n==========\nUse `cp`.", "Copy files", "Use `cp`."),
    "ruled.rst": ("\n==========\nCopy files\n==========\n\nUse ``cp``.\n", "Copy files", "Use ``cp``."),
    "plain.rst": ("Use ``cp``.\n\nThen\n----\nMore.", "", "Use ``cp``.\n\nThen\n----\nMore."),
    "tag.md": ("#1 in lists\nMore.", "", "#1 in lists\nMore."),
}


def test_a_page_is_one_document_unless_there_are_data(write_file: WriteFile) -> None:
    for name, (content, title, text) in PAGES.items():
        path = write_file(f"pages/{name}", content)
        (row,), (only,) = read_rows(path), read_rows(path, columns=["text"])
        assert (row.values, only.values) == ({"title": title, "text": text}, {"text": text})
    assert len(list(read_rows(path.parent))) == len(PAGES)
    write_file("pages/data.txt", "one\ntwo\n")
    assert texts(path.parent) == ["one", "two"]


def test_a_folder_is_read_in_order(write_file: WriteFile, caplog: pytest.LogCaptureFixture) -> None:
    files = {"b.jsonl": '{"text": "b"}', "a.txt": "a", "c/d.txt.gz": gzip.compress(b"d"), "README.md": "no"}
    for name, content in {**files, ".hidden.txt": "no", ".git/x.txt": "no"}.items():
        folder = write_file(f"docs/{name}", content).parent
    folder = folder.parent
    with caplog.at_level(logging.WARNING):
        assert texts(folder) == ["a", "b", "d"]
    assert "skipped 1 files of other formats" in caplog.text
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match="does not contain a readable file"):
        next(read_rows(folder / "empty"))


def test_reading_is_a_stream(write_file: WriteFile) -> None:
    """The rows after those taken are not read: the second line would be an error."""
    records = read_rows(write_file("docs.jsonl", '{"text": "a"}\nno json\n'))
    assert next(records).values == {"text": "a"}
    with pytest.raises(InputError, match="line 2"):
        next(records)


CUT_GZIP = gzip.compress(b"ein Satz\n" * 5000, mtime=0)[:-20]


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("empty.txt", "", "empty.txt is empty"),
        ("blank.txt", "\n \n", "blank.txt is empty"),
        ("empty.parquet", b"", "empty.parquet cannot be read as Parquet"),
        ("none.parquet", parquet_bytes({"text": []}), "none.parquet is empty"),
        ("docs.pdf", "x", "is not a known format"),
        ("latin.txt", b"ok\nok\ncaf\xe9\n", "latin.txt, line 3: byte 9 is not utf-8 (0xe9)"),
        ("binary.txt", b"ok\nab\0cd\n", "binary.txt, line 2: the file contains a NUL byte"),
        ("cut.txt.gz", CUT_GZIP, "cut.txt.gz is truncated"),
        ("cut.parquet.gz", gzip.compress(CONTENT[".parquet"])[:-9], "cut.parquet.gz is truncated"),
        ("no.txt.gz", b"plain text", "no.txt.gz is damaged"),
        ("bits.txt.gz", CUT_GZIP[:30] + b"\xff" * 20, "bits.txt.gz is"),
        ("ragged.csv", "text,id\na,1\nb\n", "ragged.csv, line 3: 1 fields, but the header has 2"),
        ("ragged.tsv", "text\tid\na\t1\nb\t2\t3\n", "ragged.tsv, line 3: 3 fields, but the header has 2"),
        ("open.csv", 'text,id\n"a\nb,1\n', "open.csv, line 2: unexpected end of data"),
        ("quotes.csv", 'text,id\n"a"b,1\n', "quotes.csv, line 2: ',' expected after '\"'"),
        ("return.csv", "text\ra\rb\r", "return.csv, line 1: a carriage return outside quotes"),
        ("comma.tsv", "text,id\na,1\n", "comma.tsv, line 1: expected tabs between the fields, but found ','"),
        ("huge.jsonl", f'{{"text": "a", "n": {"9" * 6000}}}\n', "huge.jsonl, line 1: Exceeds the limit"),
        ("bytes.parquet", bytes_in_text(), "bytes.parquet cannot be read as Parquet: 'utf-8' codec"),
        ("twice.csv", "text,text\na,b\n", "contains the column 'text' more than once"),
        ("a.csv", "texts,id\na,1\n", "have a column 'text'; its columns are texts, id; did you mean 'tex"),
        ("a.jsonl", '{"text": "a"}\n{"txt": "b"}\n', "a.jsonl, line 2 does not have a column 'text'"),
        ("array.jsonl", '["a"]\n', "array.jsonl, line 1: expected a JSON object, but found ["),
        ("deep.jsonl", "[" * 200_000 + "\n", "deep.jsonl, line 1: the JSON is nested too deeply"),
        ("b.jsonl", '{"text": 3}\n', "b.jsonl:1: expected a text in column 'text', but found 3"),
        ("d.jsonl", '{"text": "\\ud83d"}\n', "d.jsonl, line 1: the text contains an unpaired surrogate"),
    ],
)
def test_broken_input_is_one_clear_error(
    write_file: WriteFile, name: str, content: str | bytes, fragment: str
) -> None:
    path = write_file(name, content)
    with pytest.raises(InputError) as caught:
        texts(path, columns=["text"])
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


def test_kinds_of_source(write_file: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = {
        "stsb-sentences": "entry",
        "owner/name": "hub",
        "owner/name@abc123": "hub",
        "no/name.csv": "file",
    }
    assert {source: kind_of(source) for source in kinds} == kinds
    write_file("owner/other.txt", "x")
    with pytest.raises(InputError):  # a folder of that name exists, so the user meant a path
        kind_of("owner/name")
    write_file("stsb", "x")
    assert kind_of("stsb") == "file"
    with pytest.raises(InputError, match=r"columns must be a list, not the string 'text'; write \['text'\]"):
        next(read_rows(tmp_path / "owner", columns="text"))


def test_catalogued_text_with_missing_rows_is_refused(tmp_path: Path, shared_data: Path) -> None:
    (tmp_path / "nli").mkdir()
    rows = (shared_data / "nli" / "nli_triples.csv").read_text(encoding="utf-8").split("\n")
    (tmp_path / "nli" / "nli_triples.csv").write_text("\n".join(rows[:-3]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"nli-triples has 13,999 rows instead of 14,001: 2 missing"):
        list(read_rows("nli-triples", data_dir=tmp_path))
    assert len(list(read_rows("nli-triples", data_dir=tmp_path, check_rows=False))) == 13999


# Any character but surrogates, NUL (binary) and the byte order mark (not text at a file's start).
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"))


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8))
def test_tables_and_lines_come_back_as_they_were_written(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    table, objects, lines = (tmp_path / f"rows.{suffix}" for suffix in ("csv", "jsonl", "txt"))
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("first", "second"), *rows])
    dumped = (json.dumps({"first": a, "second": b}, ensure_ascii=False) for a, b in rows)
    objects.write_text("".join(f"{line}\n" for line in dumped), encoding="utf-8")
    for path in (table, objects):
        assert [tuple(record.values.values()) for record in read_rows(path)] == rows
    single = [first.replace("\n", " ") for first, _ in rows]
    lines.write_bytes("\n".join(["first", *single]).encode())
    assert texts(lines) == ["first", *(line for line in single if line.strip())]


def test_columns_have_their_roles_by_order_and_labels_are_numbers(write_file: WriteFile) -> None:
    path = write_file("triples.csv", "negative,anchor,positive,id\nn,a,p,1\nm,b,q,2\n")
    dataset = load_columns(path, ["anchor", "positive", "negative"])
    assert dataset.column_names == ["anchor", "positive", "negative"]
    assert dataset[1] == {"anchor": "b", "positive": "q", "negative": "m"}
    path = write_file("pairs.jsonl", '{"s": 4, "a": "x", "b": "y"}\n{"a": "u", "b": "v", "s": 2.5}\n')
    dataset = load_columns(path, ["a", "b"], label="s")
    assert dataset.column_names == ["a", "b", "label"] and dataset["label"][:] == [4.0, 2.5]
    for name, content, column in (("a.txt", "one\n", "text"), ("a.csv", "premise\none\n", "premise"),
                                  ("a.tsv", "id\tsentence\n1\tone\n", "sentence")):  # fmt: skip
        assert load_columns(write_file(name, content)).column_names == [column]
    assert load_columns(write_file("a.txt", "new\n"))["text"][:] == ["new"]  # a changed file is read again


def test_catalogued_sets_know_their_columns(shared_data: Path) -> None:
    triples = load_columns("nli-triples", data_dir=shared_data)
    assert (triples.column_names, len(triples)) == (["sent0", "sent1", "hard_neg"], 14001)
    sentences = load_columns("stsb-sentences", data_dir=shared_data)  # METHODS 1.5 of SG-BERT, repeats kept
    assert (sentences.column_names, len(sentences)) == (["text"], 17256)
    assert sentences["text"][:2] == ["A plane is taking off.", "An air plane is taking off."]
    scored = load_columns("stsb", data_dir=shared_data, label="score")
    assert (scored.column_names, len(scored)) == (["sentence1", "sentence2", "label"], 5749)
    assert len(load_columns("wiki-sentences", data_dir=shared_data, limit=100)) == 100


def test_large_sources_are_mapped_from_a_file_that_goes_with_the_process(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("".join(f"sentence {n}\n" for n in range(20_000)))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = (
        "from sentemb.data import columns\nimport os, sys\n"
        "held = columns.load_columns(sys.argv[1])\n"
        "columns._MEMORY = 1000\nmapped = columns.load_columns(sys.argv[1])\n"
        "assert held['text'][:] == mapped['text'][:] and not held.cache_files\n"
        "print(len(mapped), len(mapped.cache_files), len(os.listdir(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "many.txt"), str(scratch)]
    environment = os.environ | {"TMPDIR": str(scratch)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["20000", "1", "1"]
    assert list(scratch.iterdir()) == []


SCORED = "sentence1,sentence2,score\n"
READERS = {
    "columns": load_columns,
    "documents": read_unique_documents,
    "labels": read_labelled,
    "pairs": load_positive_pairs,
    "scores": load_scored_pairs,
}


@pytest.mark.parametrize(
    ("read", "name", "content", "fragment"),
    [
        ("columns", "a.csv", "x,y\n1,2\n", "has the columns x, y; name the text columns with --columns"),
        ("columns", "a.csv", "text\na\n \n", "a.csv:3: column 'text' is empty; remove the row"),
        ("columns", "a.jsonl", '{"text": "a"}\n{"txt": "b"}\n', "a.jsonl:2 does not have a column 'text'"),
        ("documents", "a.jsonl", '{"text": " "}\n', "does not contain a document with a text"),
        ("documents", "a.jsonl", '{"a": "1", "b": "2"}\n', "l:1: the text could be in any of the col"),
        ("documents", "a.jsonl", '{"text": "a", "title": 3}\n', "l:1: expected a text in column 'title'"),
        ("documents", "a.csv", "The cat slept on the old mat\nIt ran\n", "v:2: the name of the only column"),
        ("labels", "a.jsonl", '{"text": "a", "label": null}\n', "a.jsonl:1: column 'label': the label is"),
        ("labels", "a.csv", "text,label\na,1\na, \n", "a.csv:3: column 'label': the label is missing"),
        ("labels", "a.jsonl", '{"text": "a", "label": 0.5}\n', "0.5 is not a class"),
        ("labels", "a.jsonl", '{"text": "a", "kind": 1}\n', "a column 'label'; its columns are text, kind"),
        ("pairs", "a.csv", "ask,answer\nx,y\n", "not have a column for the question, such as 'anchor' or 'q"),
        ("pairs", "a.jsonl", '{"query": "x", "txt": "y"}\n', "a column for the passage, such as 'positive'"),
        ("pairs", "a.csv", "question,context,answer\nx,y,z\n", "the passage could be 'answer' or 'context'"),
        ("pairs", "a.csv", f"{SCORED}x,y,0\n", "has a column 'score', so some of its"),
        ("pairs", "a.csv", "query,passage\nx,\n", "a.csv:2: column 'passage' is empty"),
        ("scores", "a.tsv", "sentence1\tsentence2\tscore\nx\ty\t1\n \tv\t0.5\n", "tsv:3: column 'sentence1"),
        ("scores", "a.csv", f"{SCORED}a,b,NaN\n", "a.csv:2: expected a number in column 'score', but found"),
        ("scores", "a.csv", f"{SCORED}a,b,-1e308\n", "expected a number in column 'score', but found '-1e3"),
        ("scores", "a.csv", "sentence1;sentence2;score\na;b;0,5\n", "but found '0,5'; write decimals with"),
        ("scores", "a.csv", "sentence1,sentence2,grade\na,b,1\n", "column 'score'; its columns are sentence"),
        ("scores", "a.csv", "Ein Mann isst.,Jemand isst.,4\nA,B,1\n", "Jemand isst., 4; rename them to sen"),
    ],
)
def test_errors_in_tables_name_file_line_and_column(
    write_file: WriteFile, read: str, name: str, content: str, fragment: str
) -> None:
    with pytest.raises(InputError) as caught:
        READERS[read](write_file(name, content))
    assert fragment in str(caught.value)


def test_errors_in_columns_that_are_named(write_file: WriteFile) -> None:
    path = write_file("a.csv", "text,label,y\na,1,entailment\n")
    for columns, label, fragment in (
        (["text"], "y", "but found 'entailment'"),
        (["text", "text"], None, "name each column once"),
        (["label"], "y", "used as a text column and as the label"),
        (["sentence1"], "score", "a.csv does not have a column 'score'"),
        (None, "score", "a.csv:2 does not have a column 'score'"),
    ):
        with pytest.raises(InputError, match=fragment):
            load_columns(path, columns, label=label)


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


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_table_reads_back_as_training_data(tmp_path: Path, suffix: str) -> None:
    written = ['a "cat", sat', "two\nlines", "ein Käfer", "1", " spaces ", "car\rriage"]
    path, table = tmp_path / f"back{suffix}", {"text": written, "back_translation": written[::-1]}
    write_table(path, table, {"forward": "x"})
    rows = load_columns(path, list(table))
    assert {name: list(rows[name]) for name in table} == table
    manifest = json.loads((tmp_path / f"back{suffix}.manifest.json").read_text())
    assert manifest == {"forward": "x", "columns": list(table), "rows": 6, "sha256": sha256_of(path)}
