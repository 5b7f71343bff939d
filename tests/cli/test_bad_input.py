"""User errors: each is one line that names what is wrong, with exit code 2, and leaves nothing behind."""

from __future__ import annotations

import gzip
import os
import shlex
from pathlib import Path

import pytest

from sentemb.cli.main import run
from tests.cli.conftest import Command

LINES = Path(__file__).with_name("errors.txt").read_text(encoding="utf-8").splitlines()
CASES = [tuple(line.split(" => ")) for line in LINES if line and not line.startswith("#")]
SENTENCES = [
    *("a cat sat on the mat", "two birds fly over the house", "a man plays guitar", "a woman is sleeping"),
    "children eat a red apple",
]
PAIRS = "sentence1\tsentence2\tscore\na cat sat\tthe dog ran\t1.0\ntwo birds fly\tbirds fly\t4.0\n"
STS12 = ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews")
_MINE = ("mine.csv", "train.jsonl", "picture.png", "labels.toml", "model/mine.csv", ".sentemb-quickstart")
_STS = "senteval/downstream/STS"
PAIR = "news\tx\t2015\t0\t2.5\ta cat sat\ta dog ran\n"
FILES: dict[str, str | bytes] = {
    "docs.txt": "\n".join(f"{text} {number}" for number in range(12) for text in SENTENCES) + "\n",
    "c.txt": "a cat\ntwo dogs\n",
    "empty.txt": "",
    "spaces.txt": "\n \n",
    "one.txt": "a cat sat\n",
    "text.csv": "text\na cat\nthe dog\n",
    "ragged.csv": "text,id\na cat,1\nthe dog\n",
    "bytes.txt": b"a cat\n\xff\xfe dog\n",
    "latin.txt": b"caf\xe9\n",
    "broken.jsonl": '{"text": "a cat"}\n{"text": \n',
    "blank.jsonl": '{"text": ""}\n',
    "not.parquet": b"not parquet at all",
    # Incompressible, so that the cut falls into the data and not into the trailer.
    "cut.txt.gz": gzip.compress(os.urandom(4000).hex().encode())[:-2000],
    "texts.docx": "a cat",
    "wrong.toml": "epochz = 2\n",
    "broken.toml": "epochs = = 2\n",
    "mine.py": "x = 1\n",
    "taken/thesis.tex": "mine",
    "plain/notes.txt": "a cat sat\n",
    "nothing/.keep": "",
    "two.csv": "sentence1,sentence2\na cat,a dog\nbirds,two birds\n",
    "few.csv": "question,answer\n" + "".join(f"q{n},a{n}\n" for n in range(9)),
    "pairs.tsv": PAIRS,
    "nan.tsv": PAIRS.replace("4.0", "nan"),
    "blank.tsv": PAIRS.replace("birds fly\t4.0", "\t4.0"),
    "labels.csv": "text,label\na cat,1\nthe dog,2\n",
    "unlabelled.csv": "text,label\na cat,x\nthe dog,\n",
    "ab.csv": "a,b\na cat sat,2\n",
    "twice.csv": "text,b\none,2\ntwo,2\n",
    "semicolons.csv": "id;text\n1;a cat\n1;the dog\n",
    "mine.tsv": "one\ttwo\na\tb\n",
    "own/corpus.jsonl": '{"_id": "a", "text": "a cat"}\n',
    "own/queries.jsonl": '{"_id": "1", "text": "cat"}\n',
    "own/qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\ta\t1\n",
    **dict.fromkeys(("other.csv", *(f"mine/{name}" for name in _MINE)), PAIRS.replace("\t", ",")),
    **dict.fromkeys(("there.html", "there.csv", "there.png", "there.json", "there/dev.jsonl"), "mine"),
    **{f"stsb/{_STS}/STSBenchmark/sts-{one}.csv": PAIR for one in ("train", "dev", "test")},
    **{f"sts12/{_STS}/STS12-en-test/STS.gs.{part}.txt": "1.0\n" for part in STS12},
    **{f"sts12/{_STS}/STS12-en-test/STS.input.{part}.txt": "cat\tdog\nbirds\tman\n" for part in STS12},
}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """Create a folder with files of every kind, and an index next to it."""
    folder = tmp_path_factory.mktemp("ground") / "ground"
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "nothing" / ".keep").unlink()
    (folder.parent / "five.txt").write_text("\n".join(SENTENCES))
    words = ("index", "build", folder.parent / "five.txt", "-m", tiny_bert, "--pooling", "mean")
    with pytest.raises(SystemExit) as left:
        run([*map(str, words), "-o", str(folder.parent / "index")])
    assert not left.value.code
    return folder


def tree(folder: Path) -> dict[str, int]:
    """Return the files and folders, files with their times, without those that SQLite changes."""
    found = [path for path in folder.rglob("*") if not path.name.endswith(("-wal", "-shm"))]
    known = {path for path in found if path.is_file() and path.suffix != ".sqlite"}
    return {str(path): path.stat().st_mtime_ns if path in known else 0 for path in found}


@pytest.mark.parametrize(("command", "expected"), CASES, ids=[command for command, _ in CASES])
def test_a_user_error_is_one_line_and_exit_code_2(
    command: str,
    expected: str,
    ground: Path,
    tiny_bert: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    sentemb: Command,
) -> None:
    monkeypatch.chdir(ground)
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    if "--ray" in command:
        pytest.importorskip("ray", reason="ray is not installed")
    places = {
        "bert": str(tiny_bert),
        "index": str(ground.parent / "index"),
        "nines": "9" * 400,
        "T": f"train sg-opt --base {tiny_bert} --dev none --output out --data",
        "STS": f"eval sts {tiny_bert} --pooling cls",
        "B": f"index build --model {tiny_bert} --pooling mean --output out",
    }
    if "{E}" in command:
        data = request.getfixturevalue("shared_data")
        sets = "" if "--sets" in command else "--sets rte"
        places["E"] = f"experiment --base {tiny_bert} --data-dir {data} -o study {sets}"
    before = tree(ground.parent)
    code, out, err = sentemb(*shlex.split(command.format(**places)))
    errors = [line for line in err.splitlines() if line.startswith("sentemb: error: ")]
    assert (code, out, errors) == (2, "", err.splitlines()[-1:]) and "Traceback" not in err
    for part in expected.split(" & "):
        assert part in errors[0]
    assert tree(ground.parent) == before
