from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import logging
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentemb.data.sources import kind_of, read_rows
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
    """A string column whose bytes are no UTF-8, which Arrow writes without a look."""
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": broken}), sink)
    return sink.getvalue()


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
    path = write_file(f"docs{suffix}{packing}", PACKERS[packing](CONTENT[suffix]))
    records = list(read_rows(path, columns=["text"]))
    assert [record.values for record in records] == [{"text": "ein Satz"}, {"text": "noch “einer”"}]
    first = 2 if suffix in (".csv", ".tsv") else 1
    assert [record.location for record in records] == [f"{path}:{first}", f"{path}:{first + 1}"]


def test_the_case_of_a_suffix_does_not_matter(write_file: WriteFile) -> None:
    assert texts(write_file("A.TXT.GZ", gzip.compress(b"a", mtime=0))) == ["a"]


def test_columns_come_in_the_order_asked_for(write_file: WriteFile) -> None:
    for suffix in (".csv", ".tsv", ".jsonl", ".parquet"):
        path = write_file(f"docs{suffix}", CONTENT[suffix])
        assert [list(r.values) for r in read_rows(path, columns=["text", "id"])] == [["text", "id"]] * 2
        assert {*next(read_rows(path)).values} == {"id", "text"}


def test_only_line_feeds_end_lines(write_file: WriteFile) -> None:
    lines = ["one\u0085more", "form\x0cfeed", "line\u2028separator", "carriage\rreturn", "last"]
    assert texts(write_file("plain.txt", "\n".join(lines))) == lines
    assert texts(write_file("windows.txt", "a\r\nb\r\n")) == ["a", "b"]


def test_blank_lines_are_counted_and_keep_the_numbers_right(
    write_file: WriteFile, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_file("docs.txt", "a\n\n \t\nb\n")
    with caplog.at_level(logging.WARNING):
        records = list(read_rows(path))
    assert [record.location for record in records] == [f"{path}:1", f"{path}:4"]
    assert "skipped 2 blank lines" in caplog.text


def test_byte_order_marks_are_no_text(write_file: WriteFile) -> None:
    assert texts(write_file("a.txt", "\ufeffa\n")) == ["a"]
    assert texts(write_file("a.csv", "\ufefftext\na\n")) == ["a"]
    assert texts(write_file("a.jsonl", '\ufeff{"text": "a"}\n')) == ["a"]


def test_a_very_long_line(write_file: WriteFile) -> None:
    long = "wort " * 700_000  # 3.5 million characters: longer than a block, and than csv's default limit
    assert texts(write_file("long.txt", f"a\n{long}\nb")) == ["a", long, "b"]
    assert texts(write_file("long.csv", f"text\n{long}\n")) == [long]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_separators_of_spreadsheets_are_recognised(write_file: WriteFile, separator: str) -> None:
    path = write_file("docs.csv", f'id{separator}text\n1{separator}"a{separator} b, c"\n')
    assert [row.values for row in read_rows(path)] == [{"id": "1", "text": f"a{separator} b, c"}]


def test_what_separates_most_fields_is_the_separator(write_file: WriteFile) -> None:
    path = write_file("docs.csv", 'id;"text, in full";note\n1;a, b;c\n')
    assert [*next(read_rows(path)).values.values()] == ["1", "a, b", "c"]


def test_a_quoted_separator_in_a_header_is_text(write_file: WriteFile) -> None:
    assert texts(write_file("docs.csv", '"yes; no"\na; b\n'), "yes; no") == ["a; b"]


def test_a_line_without_end_is_no_text(write_file: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "line", (1, "MiB in a line of text"))
    with pytest.raises(
        InputError, match=r"long\.txt, line 2: more than 1 MiB .*; split it into several lines"
    ):
        texts(write_file("long.txt", "a\n" + "b" * (1 << 20) + "\n"))
    monkeypatch.setitem(LIMITS, "line", (2, "MiB in a line of text"))
    assert len(texts(write_file("long.txt", "a\n" + "b" * (1 << 20)))) == 2


def test_a_folder_is_read_in_order(write_file: WriteFile, caplog: pytest.LogCaptureFixture) -> None:
    for name, content in {
        "docs/b.jsonl": '{"text": "b"}',
        "docs/a.txt": "a",
        "docs/c/d.txt.gz": gzip.compress(b"d", mtime=0),
        "docs/.hidden.txt": "no",
        "docs/.git/x.txt": "no",
        "docs/README.md": "no",
    }.items():
        path = write_file(name, content)
    folder = path.parent
    with caplog.at_level(logging.WARNING):
        assert texts(folder) == ["a", "b", "d"]
    assert "skipped 1 files of other formats" in caplog.text


def test_reading_is_a_stream(write_file: WriteFile) -> None:
    """What comes after the rows taken is not looked at: the second line would be an error."""
    records = read_rows(write_file("docs.jsonl", '{"text": "a"}\nno json\n'))
    assert next(records).values == {"text": "a"}
    with pytest.raises(InputError, match="line 2"):
        next(records)


CUT_GZIP = gzip.compress(b"ein Satz\n" * 5000, mtime=0)[:-20]
CUT_XZ = lzma.compress(b"ein Satz\n" * 5000)[:-20]


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("empty.txt", "", "empty.txt is empty"),
        ("blank.txt", "\n \n", "blank.txt is empty"),
        ("empty.csv", "", "empty.csv is empty"),
        ("header.csv", "text\n", "header.csv is empty"),
        ("empty.jsonl", "", "empty.jsonl is empty"),
        ("empty.parquet", b"", "empty.parquet cannot be read as Parquet"),
        ("none.parquet", parquet_bytes({"text": []}), "none.parquet is empty"),
        ("cut.parquet", CONTENT[".parquet"][:-9], "cut.parquet cannot be read as Parquet"),
        ("docs.pdf", "x", "is not a known format"),
        ("docs", "x", "is not a known format"),
        ("docs.gz", gzip.compress(b"x", mtime=0), "is not a known format"),
        ("latin.txt", "ok\nok\ncaf\xe9\n".encode("latin-1"), "latin.txt, line 3: byte 9 is not utf-8 (0xe9)"),
        ("late.txt", b"ok\n" * 500_000 + b"\xe9\n", "line 500001: byte 1500000 is not utf-8 (0xe9)"),
        ("half.txt", "ok\né".encode()[:-1], "half.txt, line 2: byte 3 is not utf-8 (0xc3)"),
        ("binary.txt", b"ok\nab\0cd\n", "binary.txt, line 2: the file contains a NUL byte"),
        ("cut.txt.gz", CUT_GZIP, "cut.txt.gz is truncated"),
        ("cut.txt.xz", CUT_XZ, "cut.txt.xz is truncated"),
        ("cut.parquet.gz", gzip.compress(CONTENT[".parquet"], mtime=0)[:-9], "cut.parquet.gz is truncated"),
        ("no.txt.gz", b"plain text", "no.txt.gz is damaged"),
        ("no.txt.xz", b"plain text", "no.txt.xz is damaged"),
        ("cut.txt.bz2", bz2.compress(b"ein Satz\n" * 5000)[:-20], "cut.txt.bz2 is truncated"),
        ("no.txt.bz2", b"plain text", "no.txt.bz2 is damaged"),
        ("bits.txt.gz", CUT_GZIP[:30] + b"\xff" * 20, "bits.txt.gz is"),
        ("ragged.csv", "text,id\na,1\nb\n", "ragged.csv, line 3: 1 fields, but the header has 2"),
        ("ragged.tsv", "text\tid\na\t1\nb\t2\t3\n", "ragged.tsv, line 3: 3 fields, but the header has 2"),
        ("open.csv", 'text,id\n"a\nb,1\n', "open.csv, line 2: unexpected end of data"),
        ("quotes.csv", 'text,id\n"a"b,1\n', "quotes.csv, line 2: ',' expected after '\"'"),
        ("return.csv", "text\ra\rb\r", "return.csv, line 1: a carriage return outside quotes"),
        (
            "comma.tsv",
            "text,id\na,1\n",
            "comma.tsv, line 1: expected tabs between the fields, but found ','; name",
        ),
        ("mixed.csv", "text;id\na,1\n", "mixed.csv, line 2: 1 fields, but the header has 2"),
        ("huge.jsonl", '{"text": "a", "n": ' + "9" * 6000 + "}\n", "huge.jsonl, line 1: Exceeds the limit"),
        ("bytes.parquet", bytes_in_text(), "bytes.parquet cannot be read as Parquet: 'utf-8' codec"),
        ("twice.csv", "text,text\na,b\n", "contains the column 'text' more than once"),
        (
            "column.csv",
            "texts,id\na,1\n",
            "does not have a column 'text'; its columns are texts, id; did you mean 'texts'?",
        ),
        ("column.txt.gz", gzip.compress(b"", mtime=0), "column.txt.gz is empty"),
        (
            "column.jsonl",
            '{"text": "a"}\n{"txt": "b"}\n',
            "column.jsonl, line 2 does not have a column 'text'",
        ),
        (
            "column.parquet",
            parquet_bytes({"body": ["a"]}),
            "does not have a column 'text'; its columns are body",
        ),
        ("no.jsonl", '{"text": "a"}\n{"text": \n', "no.jsonl, line 2: not valid JSON ("),
        ("array.jsonl", '["a"]\n', "array.jsonl, line 1: expected a JSON object, but found a"),
        ("null.jsonl", "null\n", "null.jsonl, line 1: expected a JSON object, but found a null"),
        ("deep.jsonl", "[" * 200_000 + "\n", "deep.jsonl, line 1: the JSON is nested too deeply"),
        ("number.jsonl", '{"text": 3}\n', "number.jsonl:1: expected a text in column 'text', but found 3"),
        (
            "null2.jsonl",
            '{"text": null}\n',
            "null2.jsonl:1: expected a text in column 'text', but found nothing",
        ),
        (
            "half.jsonl",
            '{"text": "\\ud83d"}\n',
            "half.jsonl, line 1: the text contains an unpaired surrogate",
        ),
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


@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        ("missing.txt", "no such file: missing.txt"),
        ("folder/missing.jsonl.gz", "no such file: folder/missing.jsonl.gz"),
        ("nothing", "no such file, folder, or data set: nothing"),
        ("", "the name of the data is empty"),
        ("sts12", "sts12 is a test set"),
        ("stsb-sentences", "but HF_HUB_OFFLINE is set"),
        ("nli-triples", "nli-triples is not on the hub; name the folder"),
    ],
)
def test_sources_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, fragment: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    with pytest.raises(InputError) as caught:
        next(read_rows(source))
    assert fragment in str(caught.value)


def test_a_bare_string_is_no_list_of_columns(write_file: WriteFile) -> None:
    with pytest.raises(InputError, match=r"columns must be a list, not the string 'text'; write \['text'\]"):
        next(read_rows(write_file("a.txt", "a"), columns="text"))


def test_a_folder_without_texts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not contain a readable file"):
        next(read_rows(tmp_path))


def test_kinds_of_source(write_file: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert kind_of("stsb-sentences") == "entry"
    assert kind_of("owner/name") == "hub"
    assert kind_of("owner/name@abc123") == "hub"
    assert kind_of("missing/name.csv") == "file"
    write_file("owner/other.txt", "x")
    with pytest.raises(InputError):  # a folder of that name exists, so the user meant a path
        kind_of("owner/name")
    write_file("stsb", "x")
    assert kind_of("stsb") == "file"


def test_sentences_of_the_benchmark(shared_data: Path) -> None:
    """METHODS 1.5 of SG-BERT: train, dev and test, both sentences of each pair, repeats kept."""
    found = texts("stsb-sentences", data_dir=shared_data)
    assert len(found) == 17256
    assert len(set(found)) < 17256
    assert found[:2] == ["A plane is taking off.", "An air plane is taking off."]


def test_catalogued_text_with_missing_rows_is_refused(tmp_path: Path, shared_data: Path) -> None:
    (tmp_path / "nli").mkdir()
    rows = (shared_data / "nli" / "nli_triples.csv").read_text(encoding="utf-8").split("\n")
    (tmp_path / "nli" / "nli_triples.csv").write_text("\n".join(rows[:-3]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"nli-triples has 13,999 rows instead of 14,001: 2 missing"):
        list(read_rows("nli-triples", data_dir=tmp_path))
    assert len(list(read_rows("nli-triples", data_dir=tmp_path, check_rows=False))) == 13999


# Any character but surrogates, NUL (binary) and the byte order mark (no text at a file's start).
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"))
ROWS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)


@settings(max_examples=60)
@given(rows=ROWS)
def test_tables_come_back_as_they_were_written(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    table = tmp_path / "rows.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["first", "second"])
        writer.writerows(rows)
    assert [tuple(record.values.values()) for record in read_rows(table)] == rows
    lines = tmp_path / "rows.jsonl"
    with lines.open("w", encoding="utf-8") as file:
        for first, second in rows:
            file.write(json.dumps({"first": first, "second": second}, ensure_ascii=False) + "\n")
    assert [tuple(record.values.values()) for record in read_rows(lines)] == rows


@settings(max_examples=60)
@given(lines=st.lists(TEXT.map(lambda text: text.replace("\n", " ")), min_size=1))
def test_plain_lines_come_back_as_they_were_written(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes("\n".join(["first", *lines]).encode())
    assert texts(path) == ["first", *(line for line in lines if line.strip())]
