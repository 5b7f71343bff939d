"""Corpora that URIs name: every format, folders, streaming, and a line for each thing that can go wrong."""

from __future__ import annotations

import gzip
import http.server
import io
import lzma
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sentemb.data import load_columns, read_labelled, read_rows, read_scored_pairs
from sentemb.data.documents import read_unique_documents
from sentemb.data.sources import describe_source, kind_of
from sentemb.errors import InputError
from sentemb.search import read_documents
from tests.data.loopback_hub import LoopbackHub

Server = tuple[str, dict[str, bytes]]


def parquet(texts: list[str], **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), sink, **options)
    return sink.getvalue()


CONTENT = {
    "docs.csv": b"text\neins\nzwei\n",
    "docs.jsonl.gz": gzip.compress(b'{"text": "eins"}\n{"text": "zwei"}\n'),
    "docs.txt.xz": lzma.compress(b"eins\nzwei\n"),
    "docs.parquet": parquet(["eins", "zwei"]),
    "docs.parquet.gz": gzip.compress(parquet(["eins", "zwei"])),
}


class Whole(http.server.BaseHTTPRequestHandler):
    """A server that sends files only as a whole, as Python's own, and has a password for some."""

    files: dict[str, bytes]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        locked = path.startswith("/locked") and self.headers.get("Authorization") is None
        content = self.files.get(path, b"")
        self.send_response(403 if locked else 200 if path in self.files else 404)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if self.command == "GET":
            try:
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client wanted a part

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    handler = type("Handler", (Whole,), {"files": {}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", handler.files
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def memory() -> Iterator[MemoryFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def texts(source: str, **options: Any) -> list[str]:
    return [row.text("text") for row in read_rows(source, **options)]


def refused(source: str) -> str:
    with pytest.raises(InputError) as error:
        texts(source)
    assert "\n" not in str(error.value) and "secret" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", CONTENT)
def test_every_format_everywhere(
    name: str, memory: MemoryFileSystem, hub: LoopbackHub, server: Server, tmp_path: Path
) -> None:
    memory.pipe(f"/corpus/{name}", CONTENT[name])
    hub.add("datasets", "me/texts", {name: CONTENT[name]})
    (tmp_path / name).write_bytes(CONTENT[name])
    address, files = server
    files[f"/{name}"] = CONTENT[name]
    where = [f"memory://corpus/{name}", f"{hub.endpoint}/datasets/me/texts/resolve/main/{name}"]
    first = 2 if ".csv" in name or ".tsv" in name else 1
    for uri in [*where, f"{address}/{name}", (tmp_path / name).as_uri()]:
        rows = list(read_rows(uri))
        assert [row.values for row in rows] == [{"text": "eins"}, {"text": "zwei"}]
        shown = str(tmp_path / name) if uri.startswith("file") else uri
        assert [row.location for row in rows] == [f"{shown}:{first}", f"{shown}:{first + 1}"]


def test_a_folder_is_read_as_a_local_one(memory: MemoryFileSystem, tmp_path: Path) -> None:
    names = "b.txt a/z.txt a-b.txt a.txt why?.txt .hidden/x.txt readme.md picture.png".split()
    for name in names:
        memory.pipe(f"/corpus/{name}", name.encode())
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert kind_of("memory://corpus") == "folder"
    in_order = ["a/z.txt", "a-b.txt", "a.txt", "b.txt", "why?.txt"]
    assert texts("memory://corpus/") == texts(tmp_path.as_uri()) == in_order
    memory.pipe("/corpus/c.txt", b"new")
    assert texts("memory://corpus/")[4] == "new"
    memory.pipe("/parts.parquet/0.parquet", parquet(["of Spark"]))
    assert texts("memory://parts.parquet") == ["of Spark"]
    assert texts("memory://corpus/.hidden") == [".hidden/x.txt"]


def test_a_page_of_links_is_a_folder(server: Server) -> None:
    address, files = server
    files["/list/"] = (
        b'<a href="../">up</a> <a href="?C=N">sort</a> <a href="b.txt">b</a> <a href="in/">in</a>'
    )
    files["/list/in/"] = b'see https://elsewhere.org/x.txt <a href="/list/in/a%20b.txt">a</a>'
    files |= {"/list/b.txt": b"b", "/list/in/a%20b.txt": b"a"}
    found = [row.location for row in read_rows(f"{address}/list/")]
    assert found == [f"{address}/list/b.txt:1", f"{address}/list/in/a%20b.txt:1"]


def test_tables_and_folders_of_every_kind(memory: MemoryFileSystem) -> None:
    memory.pipe("/set/corpus.jsonl", b'{"_id": "d1", "title": "Katzen", "text": "sie schlafen"}')
    assert [one.id for one in read_documents("memory://set")] == ["d1"]
    memory.pipe("/set/queries.jsonl", b'{"_id": "q1", "text": "Wer schl\xc3\xa4ft?"}')
    assert [(one.id, one.text) for one in read_documents("memory://set")] == [("d1", "Katzen sie schlafen")]
    assert [one.whole for one in read_unique_documents("memory://set")] == ["Katzen sie schlafen"]
    memory.pipe("/my-dev.csv", b"sentence1,sentence2,score\na,b,1\n")
    memory.pipe("/labels.csv", b"text,label\na,x\nb,y\n")
    pairs = read_scored_pairs("memory://my-dev.csv")
    assert (pairs.name, pairs.split, pairs.source) == ("my-dev", "dev", "memory://my-dev.csv")
    assert read_labelled("memory://labels.csv").texts == ["a", "b"]
    assert load_columns("memory://labels.csv")["text"] == ["a", "b"]
    for name in ("docs.csv", "docs.parquet"):
        memory.pipe(f"/{name}", CONTENT[name])
        with pytest.raises(
            InputError, match=rf"memory://{name} does not have a column 'title'; its columns ar"
        ):
            texts(f"memory://{name}", columns=["title"])


def test_what_is_not_read_is_not_fetched(hub: LoopbackHub) -> None:
    content = (b"a line of a corpus that is large " * 30 + b"\n") * 20_000
    hub.add("datasets", "me/texts", {"docs.txt": content})
    rows = read_rows(f"{hub.endpoint}/datasets/me/texts/resolve/main/docs.txt")
    next(rows)
    fetched = [request for request in hub.requests if request.startswith("GET")]
    assert len(fetched) == 2  # one byte, to know whether the server sends parts, and one part
    assert sum(1 for _ in rows) == 19_999
    assert len([request for request in hub.requests if request.startswith("GET")]) > 2


@pytest.mark.parametrize("name", ["large.txt", "large.parquet"])
def test_a_server_that_sends_whole_files(name: str, server: Server) -> None:
    address, files = server
    lines = [f"{number:0100}" for number in range(80_000)]
    table = parquet(lines, compression="none", use_dictionary=False)
    files[f"/{name}"] = table if name.endswith("parquet") else "\n".join(lines).encode()
    assert len(files[f"/{name}"]) > 6 << 20  # more than one block of fsspec
    assert texts(f"{address}/{name}") == lines
    files["/empty.txt"] = b""
    assert refused(f"{address}/empty.txt") == f"{address}/empty.txt is empty"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("memory://absent.csv", "no such file: memory://absent.csv"),
        ("memory://absent", "no such file or folder: memory://absent"),
        ("memory://corpus/odd.bin", "the extension of memory://corpus/odd.bin is not a known format"),
        ("memory://corpus/bad.jsonl", "memory://corpus/bad.jsonl, line 2: not valid JSON (Expecting value"),
        ("memory://corpus/bad.txt.gz", "bad.txt.gz is damaged, or not compressed as its extension says"),
        ("memory://corpus/bad.parquet", "memory://corpus/bad.parquet cannot be read as Parquet: "),
        ("nonsense://b/x.csv", "nonsense://b/x.csv cannot be read: Protocol not known: nonsense; use s3://"),
        ("file:///absent/x.csv", "no such file: /absent/x.csv"),
        (
            "http://me:secret@127.0.0.1:1/x.csv?t=secret",
            "http://127.0.0.1:1/x.csv cannot be read: Connection",
        ),
    ],
)
def test_errors_name_the_uri(uri: str, message: str, memory: MemoryFileSystem) -> None:
    memory.pipe({f"/corpus/{name}": b"x" for name in ("odd.bin", "bad.txt.gz", "bad.parquet")})
    memory.pipe("/corpus/bad.jsonl", b'{"text": "a"}\n{"text": b}\n')
    assert message in refused(uri)


def test_a_server_refuses(server: Server) -> None:
    address, files = server
    assert refused(f"{address}/absent.csv") == f"no such file: {address}/absent.csv"
    assert refused(f"{address}/absent/") == f"no such file: {address}/absent/"
    message = f"{address}/locked.csv: permission denied; check your credentials"
    assert refused(f"{address}/locked.csv?token=secret") == message
    files["/locked.csv"] = b"text\na\n"
    uri = f"{address.replace('//', '//me:secret@')}/locked.csv"
    assert [row.location for row in read_rows(uri)] == [f"{address}/locked.csv:2"]
    assert describe_source(f"{uri}?x=secret") == {"source": f"{address}/locked.csv", "files": []}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    for name in {*fsspec.registry} & {"s3"}:
        monkeypatch.delitem(fsspec.registry.target, name)  # type: ignore[attr-defined]
    assert "s3://b/x.csv cannot be read: Install s3fs to access S3" in refused("s3://b/x.csv")


class NoCredentials(Exception):
    """An error of the kind that clients of object stores have."""


class Broken(io.BytesIO):
    """A connection that ends."""

    def readinto(self, buffer: Any) -> int:
        raise ConnectionResetError(104, "gone")


class Shrunk(io.BytesIO):
    """A file that was longer when it was opened."""

    size = 30


class Vault(MemoryFileSystem):
    """A store whose client fails in its own ways."""

    protocol = "vault"
    failure: Exception | None = None

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return {"name": path, "type": "file", "size": 1}

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        return Shrunk(b"text\na\nb\n") if "shrunk" in path else Broken(bytes(100))


@pytest.mark.parametrize(
    ("failure", "name", "message"),
    [
        (NoCredentials("Unable to locate credentials"), "x.csv", " cannot be read: Unable to locate cred"),
        (PermissionError("Forbidden"), "x.csv", ": permission denied; check your credentials"),
        (NoCredentials(), "x.csv", " cannot be read: NoCredentials; check the address, the network and"),
        (None, "x.csv", " cannot be read: Connection reset by peer"),
        (None, "x.parquet", " cannot be read: Connection reset"),
        (None, "shrunk.csv", " ends at byte 9 of 30; run the command again"),
    ],
)
def test_errors_of_clients_are_lines(
    failure: Exception | None, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec.register_implementation("vault", Vault, clobber=True)
    monkeypatch.setattr(Vault, "failure", failure)
    assert f"vault://b/{name}{message}" in refused(f"vault://b/{name}")
