from __future__ import annotations

import io
import json
import signal
import sys
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
MEAN = ["-m", "{bert}", "--pooling", "mean"]


def build(corpus: Path, model: Path) -> list[str]:
    """The words of a command that builds `index` beside the corpus."""
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


def test_table_shows_scores_and_texts_without_markup(
    sentemb: Command, tiny_bert: Path, tmp_path: Path
) -> None:
    (tmp_path / "c.csv").write_text("key,text\nk1,a cat [red]sat[/red]\nk2,two birds\n")
    code, out, err = sentemb(*build(tmp_path / "c.csv", tiny_bert), "--id-column", "key")
    assert code == 0, err
    assert "recall@10" in out and "bytes per vector" in out and "flat because" in out
    code, out, _ = sentemb("index", "search", tmp_path / "index", "a cat [red]sat[/red]", "-k", 1)
    assert code == 0 and "| 1.0000 | k1 |" in out and "k2" not in out
    assert out.count("[red]sat[/red]") == 2  # the query and the hit


def test_a_document_cannot_command_the_terminal(sentemb: Command, tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("a cat \x1b[31mred\x07\n")
    assert sentemb(*build(tmp_path / "c.txt", tiny_bert))[0] == 0
    code, out, _ = sentemb("index", "search", tmp_path / "index", "a cat\x1b[2J")
    assert code == 0 and r"a cat \x1b[31mred\x07" in out and r"a cat\x1b[2J" in out
    assert not {*out} & {"\x1b", "\x07"}


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


def test_a_terminal_shows_the_words_of_the_query_in_bold(
    sentemb: Command, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.txt").write_text(f"a \x1b[31m cat \x07 cats {'and more ' * 40}\n")
    assert sentemb(*build(tmp_path / "c.txt", tiny_bert), "--language", "en")[0] == 0
    command = ["index", "search", tmp_path / "index", "cat", "--mode", "keyword"]
    _, piped, _ = sentemb(*command)
    assert r"a \x1b[31m cat \x07 cats" in piped and "more…" in piped and "\x1b" not in piped
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "300")
    _, out, _ = sentemb(*command)
    assert "a \\x1b[31m \x1b[1mcat\x1b[0m \\x07 \x1b[1mcats\x1b[0m and" in out


def test_hybrid_is_fitted_on_judged_queries(sentemb: Command, tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("\n".join(SENTENCES))
    assert sentemb(*build(tmp_path / "c.txt", tiny_bert))[0] == 0
    index = tmp_path / "index"
    assert sentemb("index", "fit", index)[1] == (
        "hybrid search weights keyword and dense search equally: there are too few documents to generate "
        "queries from\n"
    )
    rows = [{"_id": f"q{n}", "text": text} for n, text in enumerate(SENTENCES)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f"q{n}\t{n}\t1\n" for n in range(5)]
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    judged = ("--queries", tmp_path / "queries.jsonl", "--qrels", tmp_path / "qrels.tsv")
    code, out, _ = sentemb("index", "fit", index, *judged)
    assert code == 0 and "NDCG@10 on 5 queries with qrels is 100.0 for dense search, 100.0" in out
    assert out.strip() in sentemb("index", "info", index)[1]
    code, out, _ = sentemb("index", "search", index, SENTENCES[2], "--mode", "hybrid", "--json")
    assert code == 0 and json.loads(out)["hits"][0]["id"] == 2


def test_a_language_is_a_code(sentemb: Command, tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("the cats sleep\na dog\n")
    command = build(tmp_path / "corpus.txt", tiny_bert)
    code, _, error = sentemb(*command, "--language", "English")
    assert code == 2 and "'English' is not an ISO 639 code" in error and not (tmp_path / "index").exists()
    assert sentemb(*command, "--language", "en")[0] == 0
    _, out, _ = sentemb("index", "search", tmp_path / "index", "cat", "--mode", "keyword", "--json")
    assert [hit["text"] for hit in json.loads(out)["hits"]] == ["the cats sleep"]


def test_info_prints_the_manifest(sentemb: Command, index: Path) -> None:
    code, out, _ = sentemb("index", "info", index, "--json")
    assert code == 0 and json.loads(out)["documents"] == 5
    code, out, _ = sentemb("index", "info", index)
    assert code == 0 and "5; 0 blank ones were skipped" in out


def test_overwrite_replaces(sentemb: Command, tiny_bert: Path, tmp_path: Path) -> None:
    for texts in ("a cat\n", "a dog\ntwo birds\n"):
        (tmp_path / "c.txt").write_text(texts)
        code, _, err = sentemb(*build(tmp_path / "c.txt", tiny_bert), "--overwrite")
        assert code == 0, err
    assert json.loads(sentemb("index", "info", tmp_path / "index", "--json")[1])["documents"] == 2


def test_documents_are_added_updated_deleted_and_compacted(
    sentemb: Command, tiny_bert: Path, tmp_path: Path
) -> None:
    (tmp_path / "c.csv").write_text("key,text\nk1,a cat sat\nk2,two birds\n7,the dog ran\n")
    (tmp_path / "more.csv").write_text("key,text\nk3,red apple\nk4, \n")
    (tmp_path / "new.csv").write_text("key,text\nk1,a woman is sleeping\nk5,a man\n")
    (tmp_path / "ids.txt").write_text("k3\n\nk9\n")
    folder, ids = tmp_path / "index", ("--id-column", "key", "--text-column", "text")

    def said(*arguments: object) -> str:
        code, out, err = sentemb("index", *arguments)
        assert code == 0, err
        return out

    sentemb(*build(tmp_path / "c.csv", tiny_bert), *ids)
    assert (
        said("add", folder, tmp_path / "more.csv", *ids) == "added 1, skipped 1 blank; 4 documents in total\n"
    )
    assert said("update", folder, tmp_path / "new.csv", *ids) == "added 1, replaced 1; 5 documents in total\n"
    assert "| 1.0000 | k1 |" in said("search", folder, "a woman is sleeping", "-k", 1)
    assert said("delete", folder, "--ids", tmp_path / "ids.txt") == (
        "deleted 1, 1 not in the index; 4 documents remain\n"
    )
    assert said("delete", folder, "7", "7") == "deleted 1; 3 documents remain\n"
    assert "since then 2 vectors were added and 2 deleted" in said("info", folder)
    facts = json.loads(said("info", folder, "--json"))
    assert (facts["documents"], facts["written"], facts["deleted"]) == (3, 2, 2)
    assert facts["compaction_pays"]  # two of three have died
    assert f"next: sentemb index compact {folder}" in sentemb("index", "info", folder)[2]
    assert "flat because exact search is fast" in said("compact", folder)
    assert json.loads(said("info", folder, "--json"))["documents"] == 3
    assert "next:" not in sentemb("index", "info", folder)[2]
    assert len([path for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]) == 3


def test_hits_by_meaning_show_the_beginning_of_long_texts(
    sentemb: Command, tiny_bert: Path, tmp_path: Path
) -> None:
    text = "the cat sat on the mat " * 100
    (tmp_path / "c.txt").write_text(f"{text}\n")
    assert sentemb(*build(tmp_path / "c.txt", tiny_bert), "--truncate", "warn")[0] == 0
    _, out, _ = sentemb("index", "search", tmp_path / "index", "a cat")
    cell = out.splitlines()[-1].split(" | ")[-1].removesuffix(" |")
    assert cell.endswith("…") and text.startswith(cell[:-1]) and 150 < len(cell) <= 200
    _, out, _ = sentemb("index", "search", tmp_path / "index", "a cat", "--json")
    assert json.loads(out)["hits"][0]["text"] == text


def test_long_texts_are_split_or_cut(
    sentemb: Command, tiny_bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = ". ".join(SENTENCES)
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in (text, "a dog")))
    (tmp_path / "more.jsonl").write_text(json.dumps({"text": f"{text}. {SENTENCES[0]}"}) + "\n")
    command = (*build(tmp_path / "c.jsonl", tiny_bert), "--max-length", 10, "--overlap", 0)
    folder, more = tmp_path / "index", tmp_path / "more.jsonl"
    code, out, _ = sentemb(*command)
    assert code == 0 and "1 document in chunks; new long texts are split into chunks" in out
    code, out, _ = sentemb("index", "search", folder, SENTENCES[2], "-k", 1)
    assert code == 0 and f"…{SENTENCES[2]}.…" in out
    code, out, _ = sentemb("index", "search", folder, SENTENCES[2], "-k", 1, "--json")
    (hit,) = json.loads(out)["hits"]
    assert hit["text"] == text and text[slice(*hit["passage"])] == f"{SENTENCES[2]}."
    code, out, _ = sentemb("index", "add", folder, more, "--truncate", "warn")
    assert code == 0 and "added 1, truncated 1; 3 documents" in out
    assert "1 of 1 documents are longer than the 8 tokens" in caplog.text
    facts = json.loads(sentemb("index", "info", folder, "--json")[1])
    assert (facts["chunked"], facts["truncated"], facts["truncate"]) == (1, 1, "split")
    code, out, _ = sentemb(*command, "--truncate", "warn", "--overwrite")
    assert code == 0 and "1 document truncated; new long texts are truncated" in out


def test_a_filter_leaves_out_what_does_not_meet_it(sentemb: Command, tiny_bert: Path, tmp_path: Path) -> None:
    rows = [{"text": text, "year": 2018 + n, "lang": "en"} for n, text in enumerate(SENTENCES)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sentemb(*build(tmp_path / "c.jsonl", tiny_bert), "--text-column", "text")
    where = ("--where", "year>=2020", "--where", "lang=en", "--where", "year!=2021")
    code, out, _ = sentemb("index", "search", tmp_path / "index", "a cat", *where, "--json")
    assert code == 0 and {hit["id"] for hit in json.loads(out)["hits"]} == {2, 4}


def test_integers_are_deleted_too(sentemb: Command, tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("\n".join(SENTENCES))
    sentemb(*build(tmp_path / "c.txt", tiny_bert))
    code, out, _ = sentemb("index", "delete", tmp_path / "index", "3", "03", "x")
    assert code == 0 and out == "deleted 1, 2 not in the index; 4 documents remain\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "{tmp}/none", "{tmp}/c.txt"], "{tmp}/none is not an index"),
        (["add", "{index}", "{tmp}/none.txt"], "no such file: {tmp}/none.txt"),
        (["add", "{index}", "{tmp}/c.csv"], "the text could be in any of the columns a, b"),
        (["add", "{index}", "{tmp}/blank.txt"], "is empty"),
        (["add", "{index}", "{index}"], "would replace the input"),
        (["add", "{index}", "{tmp}/c.txt", "-m", "{tmp}/none"], "{tmp}/none"),
        (["add", "{index}", "{tmp}/twice.csv", "--id-column", "b"], "'2' occurs twice"),
        (["update", "{index}", "{tmp}/c.csv", "--text-column", "a", "--id-column", "x"], "have a column 'x'"),
        (["delete", "{tmp}/none", "1"], "{tmp}/none is not an index"),
        (["delete", "{index}", "1", "--ids", "{tmp}/c.txt"], "ids and --ids cannot be combined"),
        (["delete", "{index}", "--ids", "{tmp}/blank.txt"], "is empty; write one id per line"),
        (["delete", "{index}", "--ids", "{tmp}/none.txt"], "{tmp}/none.txt: No such file"),
        (["compact", "{tmp}/none"], "{tmp}/none is not an index"),
        (["compact", "{index}", "--kind", "ivfpq"], "choose flat or hnsw"),
        (["compact", "{index}", "--memory-budget", "lots"], "'lots' is not a size"),
        (["fit", "{tmp}/none"], "{tmp}/none is not an index"),
        (["fit", "{index}", "--queries", "{tmp}/c.txt"], "--queries and --qrels need each other"),
        (["fit", "{index}", "--queries", "{tmp}/no.jsonl", "--qrels", "x"], "no such file: {tmp}/no.jsonl"),
        (["search", "{tmp}/none", "x"], "{tmp}/none is not an index"),
        (["info", "{tmp}/none"], "{tmp}/none is not an index"),
        (["info", "{tmp}/c.txt"], "is a file, not an index folder"),
        (["search", "{index}", " "], "query 0 is blank"),
        (["search", "{index}", "x", "--where", "year"], "--where year is not a condition; write it like"),
        (["search", "{index}", "x", "--where", "a<true"], "where, a: < cannot compare with True"),
        (["search", "{index}", "x", "-k", "0"], "k must be a positive integer, not 0"),
        (["search", "{index}", "x", "--queries", "{tmp}/c.txt"], "a query and --queries cannot be combined"),
        (["search", "{index}", "--queries", "{tmp}/blank.txt"], "is empty; write one query per line"),
        (["search", "{index}", "--queries", "{tmp}/latin.txt"], "is not UTF-8"),
        (["search", "{index}", "--queries", "{tmp}/none.txt"], "{tmp}/none.txt: No such file"),
        (["search", "{index}", "x", "--model", "{tmp}/none"], "{tmp}/none"),
        (["build", "{tmp}/none.txt", "-m", "{bert}", "-o", "{out}"], "no such file: {tmp}/none.txt"),
        (["build", "{tmp}/c.csv", *MEAN, "-o", "{out}"], "the text could be in any of the columns a, b"),
        (["build", "{tmp}/c.csv", "--text-column", "x", "-m", "{bert}", "-o", "{out}"], "have a column 'x'"),
        (["build", "{tmp}/blank.txt", *MEAN, "-o", "{out}"], "is empty"),
        (["build", "{tmp}/c.txt", *MEAN, "-o", "{index}"], "already contains an index; pass --overwrite"),
        (["build", "{tmp}/c.txt", *MEAN, "-o", "{tmp}/c.txt"], "{tmp}/c.txt is a file"),
        (["build", "{tmp}/c.txt", *MEAN, "-o", "{tmp}"], "is not empty and not an index"),
        (["build", "{tmp}/c.txt", *MEAN, "-o", "{tmp}/c.txt/out"], "{tmp}/c.txt"),
        (["build", "{tmp}/c.txt", "-m", "{bert}", "--pooling", "sum", "-o", "{out}"], "sum"),
        (["build", "{tmp}/c.txt", "-m", "{tmp}/none", "-o", "{out}"], "{tmp}/none"),
        (["build", "{tmp}/c.txt", *MEAN, "--memory-budget", "lots", "-o", "{out}"], "'lots' is not a size"),
        (["build", "{tmp}/c.txt", *MEAN, "--memory-budget", "10", "-o", "{out}"], "raise the memory budget"),
        (["build", "{tmp}/c.txt", *MEAN, "--kind", "ivfpq", "-o", "{out}"], "choose flat or hnsw"),
        (["build", "{tmp}/c.txt", *MEAN, "--overlap", "nan", "-o", "{out}"], "overlap is nan; choose"),
        (["build", "{tmp}/c.csv", "--text-column", "a", *MEAN, "--max-length", "3", "--truncate", "error",
          "-o", "{out}"], "{tmp}/c.csv:2: the text has at least 3 tokens"),
        (["build", "{tmp}/twice.csv", "--id-column", "b", *MEAN, "-o", "{out}"], "'2' occurs twice"),
    ],
)  # fmt: skip
def test_a_user_error_is_one_line(
    sentemb: Command, index: Path, tiny_bert: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "c.txt").write_text("a cat\ntwo dogs\n")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "c.csv").write_text("a,b\na cat sat,2\n")
    (tmp_path / "twice.csv").write_text("text,b\none,2\ntwo,2\n")
    before = sorted(tmp_path.iterdir())
    places = {"tmp": tmp_path, "index": index, "bert": tiny_bert, "out": tmp_path / "out"}
    code, out, err = sentemb("index", *(argument.format(**places) for argument in arguments))
    errors = [line for line in err.splitlines() if line.startswith("sentemb: error: ")]
    assert code == 2 and len(errors) == 1 and out == ""
    assert message.format(**places) in errors[0] and "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


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
