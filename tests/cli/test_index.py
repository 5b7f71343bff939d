from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.cli.main import run
from tests import processes
from tests.cli.conftest import Command

SENTENCES = [
    "a cat sat on the mat",
    "two birds fly over the house",
    "a man plays guitar",
    "a woman is sleeping",
    "children eat a red apple",
]


def build(corpus: Path, model: Path) -> list[str]:
    """Return the arguments of a command that builds `index` next to the corpus."""
    output = corpus.with_name("index")
    return ["index", "build", str(corpus), "-m", str(model), "--pooling", "mean", "-o", str(output)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    folder = tmp_path_factory.mktemp("built")
    (folder / "corpus.txt").write_text("\n".join(SENTENCES) + "\n")
    with pytest.raises(SystemExit) as leave:
        run(build(folder / "corpus.txt", tiny_bert))
    assert not leave.value.code
    assert {path.name for path in folder.iterdir()} == {"corpus.txt", "index"}
    return folder / "index"


Make = Callable[..., str]


@pytest.fixture
def make(sentemb: Command, tiny_bert: Path, tmp_path: Path) -> Make:
    """Build `index` of a file with this content, and return what the command prints."""

    def build_of(content: str, *options: object, name: str = "c.txt") -> str:
        (tmp_path / name).write_text(content)
        code, out, err = sentemb(*build(tmp_path / name, tiny_bert), *options)
        assert code == 0, err
        return out

    return build_of


def test_search_finds_each_sentence_first(sentemb: Command, index: Path, tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("\n".join(SENTENCES))
    code, out, _ = sentemb("index", "search", index, "--queries", tmp_path / "queries.txt", "-k", 2, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["query"] for row in found] == SENTENCES
    assert [row["hits"][0]["id"] for row in found] == [0, 1, 2, 3, 4]
    assert all(
        len(row["hits"]) == 2 and row["hits"][0]["score"] == pytest.approx(1, abs=1e-5) for row in found
    )


def test_queries_come_from_standard_input(
    sentemb: Command, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = io.TextIOWrapper(io.BytesIO(f"{SENTENCES[2]}\n\n{SENTENCES[3]}\n".encode()))
    monkeypatch.setattr(sys, "stdin", piped)
    code, out, _ = sentemb("index", "search", index, "-k", 1, "--json")
    assert code == 0
    assert [json.loads(line)["hits"][0]["id"] for line in out.splitlines()] == [2, 3]


def test_table_shows_scores_and_texts_without_markup(sentemb: Command, make: Make, tmp_path: Path) -> None:
    rows = "key,text\nk1,a cat [red]sat[/red]\nk2,two birds\n"
    out = make(rows, "--id-column", "key", name="c.csv")
    assert "recall@10" in out and "bytes per vector" in out and "flat because" in out
    code, out, _ = sentemb("index", "search", tmp_path / "index", "a cat [red]sat[/red]", "-k", 1)
    assert code == 0 and "| 1.0000 | k1 |" in out and "k2" not in out
    assert out.count("[red]sat[/red]") == 2  # the query and the hit


def test_keywords_are_searched_without_the_model(
    sentemb: Command, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentemb.encoding.encoder.EncoderSpec.load", lambda *_, **__: pytest.fail("loaded"))
    code, out, _ = sentemb("index", "search", index, 'sleeping "man" ?', "--mode", "keyword", "--json")
    assert code == 0
    assert {hit["id"] for hit in json.loads(out)["hits"]} == {2, 3}
    code, out, _ = sentemb("index", "search", index, "?!", "--mode", "keyword", "--json")
    assert code == 0 and json.loads(out)["hits"] == []
    assert "words, with" in sentemb("index", "info", index)[1]


def test_overwrite_replaces(sentemb: Command, make: Make, tmp_path: Path) -> None:
    for texts in ("a cat\n", "a dog\ntwo birds\n"):
        make(texts, "--overwrite")
    assert json.loads(sentemb("index", "info", tmp_path / "index", "--json")[1])["documents"] == 2


def test_documents_are_added_updated_deleted_and_compacted(
    sentemb: Command, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "more.csv").write_text("key,text\nk3,red apple\nk4, \n")
    (tmp_path / "new.csv").write_text("key,text\nk1,a woman is sleeping\nk5,a man\n")
    (tmp_path / "ids.txt").write_text("k3\n\nk9\n")
    folder, ids = tmp_path / "index", ("--id-column", "key", "--text-column", "text")

    def said(*arguments: object) -> str:
        code, out, err = sentemb("index", *arguments)
        assert code == 0, err
        return out

    make("key,text\nk1,a cat sat\nk2,two birds\n7,the dog ran\n", *ids, name="c.csv")
    assert (
        said("add", folder, tmp_path / "more.csv", *ids) == "added 1, skipped 1 blank; 4 documents in total\n"
    )
    assert said("update", folder, tmp_path / "new.csv", *ids) == "added 1, replaced 1; 5 documents in total\n"
    assert "| 1.0000 | k1 |" in said("search", folder, "a woman is sleeping", "-k", 1)
    assert said("delete", folder, "--ids", tmp_path / "ids.txt") == (
        "deleted 1, 1 not in the index; 4 documents remain\n"
    )
    assert said("delete", folder, "7", "7", "07", "x") == (
        "deleted 1, 2 not in the index; 3 documents remain\n"
    )
    assert "since then 2 vectors were added and 2 deleted" in said("info", folder)
    facts = json.loads(said("info", folder, "--json"))
    assert (facts["documents"], facts["written"], facts["deleted"]) == (3, 2, 2)
    assert facts["compaction_pays"]  # two of three have died
    assert f"next: sentemb index compact {folder}" in sentemb("index", "info", folder)[2]
    assert "flat because exact search is fast" in said("compact", folder)
    assert json.loads(said("info", folder, "--json"))["documents"] == 3
    assert "next:" not in sentemb("index", "info", folder)[2]
    assert len([path for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]) == 3


def test_a_file_size_limit_is_one_line(sentemb: Command, tiny_bert: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    (tmp_path / "c.txt").write_text("".join(f"cat {number} sat\n" for number in range(3000)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        code, out, err = sentemb(*build(tmp_path / "c.txt", tiny_bert))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    errors = [line for line in err.splitlines() if line.startswith("sentemb: error: ")]
    assert code == 2 and len(errors) == 1 and out == "" and "Traceback" not in err
    assert not (tmp_path / "index").exists()


# A background job inherits that Ctrl-C is ignored, whatever runs these tests.
INTERRUPTED_BUILD = """
import signal, sys
number, shards = int(sys.argv.pop(1)), 0
def interrupt(event, arguments):
    global shards
    if event == "os.rename" and "shard-" in str(arguments[1]):
        shards += 1
        if shards == 2:
            signal.raise_signal(number)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.addaudithook(interrupt)
from sentemb.cli.main import run
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_command_resumes(
    sentemb: Command, tiny_bert: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    # Two shards; the signal comes while the second one is put in its place.
    (tmp_path / "c.txt").write_text("".join(f"cat {number}\n" for number in range(3_000)))
    arguments = build(tmp_path / "c.txt", tiny_bert)
    work = tmp_path / ".index.building"
    log = tmp_path / "log"
    process = processes.start(processes.run_code, INTERRUPTED_BUILD, str(int(number)), *arguments, log=log)
    process.join()
    err = log.read_text()
    assert process.exitcode == code
    assert f"encoded texts are kept in {work}" in err and "Traceback" not in err
    assert not (tmp_path / "index").exists()
    code, _, err = sentemb(*arguments)
    assert code == 0, err
    assert "texts were already encoded" in err
    assert not work.exists()
