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


def test_queries_come_from_standard_input(
    sentemb: Command, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = io.TextIOWrapper(io.BytesIO(f"{SENTENCES[2]}\n\n{SENTENCES[3]}\n".encode()))
    monkeypatch.setattr(sys, "stdin", piped)
    code, out, _ = sentemb("index", "search", index, "-k", 1, "--json")
    assert code == 0
    assert [json.loads(line)["hits"][0]["id"] for line in out.splitlines()] == [2, 3]


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
