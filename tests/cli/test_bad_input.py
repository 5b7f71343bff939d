"""User errors, each answered by one line that names what is wrong, with exit code 2."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.cli.main import run

SENTENCES = (
    "a cat sat on the mat\ntwo birds fly over the house\nthe dog ran in the park\nchildren eat red apple\n"
)
PAIRS = "sentence1\tsentence2\tscore\na cat sat\tthe dog ran\t1.0\ntwo birds fly\tbirds fly\t4.0\n"

Make = Callable[[Path], dict[str, str]]


def file(name: str, content: str | bytes) -> Make:
    """A case that needs one file, known to the arguments as {data}."""

    def make(folder: Path) -> dict[str, str]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return {"data": str(path)}

    return make


def truncated_gzip(folder: Path) -> dict[str, str]:
    path = folder / "texts.txt.gz"
    # Incompressible, so that the cut falls into the data and not into the trailer.
    path.write_bytes(gzip.compress(os.urandom(4000).hex().encode())[:-2000])
    return {"data": str(path)}


def empty_folder(folder: Path) -> dict[str, str]:
    (folder / "nothing").mkdir()
    return {"data": str(folder / "nothing")}


def taken_output(folder: Path) -> dict[str, str]:
    (folder / "out").mkdir()
    (folder / "out" / "thesis.tex").write_text("mine")
    return file("texts.txt", SENTENCES)(folder)


def mismatched_sts(folder: Path) -> dict[str, str]:
    sets = folder / "senteval" / "downstream" / "STS" / "STS12-en-test"
    sets.mkdir(parents=True)
    for part in ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"):
        (sets / f"STS.input.{part}.txt").write_text("a cat\ta dog\ntwo birds\tbirds\n")
        (sets / f"STS.gs.{part}.txt").write_text("1.0\n")
    return {"data": str(folder)}


def truncated_sts(folder: Path) -> dict[str, str]:
    benchmark = folder / "senteval" / "downstream" / "STS" / "STSBenchmark"
    benchmark.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (benchmark / f"sts-{split}.csv").write_text("news\tx\t2015\t0\t2.5\ta cat sat\ta dog ran\n")
    return {"data": str(folder)}


def not_an_index(folder: Path) -> dict[str, str]:
    (folder / "plain").mkdir()
    return {"data": str(folder / "plain")}


def not_a_model(folder: Path) -> dict[str, str]:
    (folder / "plain").mkdir()
    (folder / "plain" / "notes.txt").write_text(SENTENCES)
    return {"data": str(folder / "plain")}


TRAIN = ("train", "sg-opt", "--base", "{bert}", "--output", "{out}", "--dev", "none")
TRAIN_DATA = (*TRAIN, "--data", "{data}")
STS = ("eval", "sts", "{bert}", "--pooling", "cls")
STUB = ("--sets", "stsb", "--data-dir", "{data}", "--allow-count-mismatch")
BUILD = ("index", "build", "{data}", "--model", "{bert}", "--pooling", "mean", "--output", "{out}")

CASES: dict[str, tuple[Make, tuple[str, ...], tuple[str, ...]]] = {
    # training text
    "missing file": (lambda folder: {}, (*TRAIN, "--data", "{tmp}/absent.txt"), ("absent.txt",)),
    "empty file": (file("texts.txt", ""), TRAIN_DATA, ("texts.txt",)),
    "one sentence": (file("texts.txt", "a cat sat\n"), TRAIN_DATA, ("one",)),
    "wrong column": (
        file("t.csv", "text\na cat\nthe dog\n"),
        (*TRAIN_DATA, "--columns", "txet"),
        ("txet", "text"),
    ),
    "ragged row": (
        file("t.csv", "text,id\na cat,1\nthe dog\n"),
        (*TRAIN_DATA, "--columns", "text"),
        ("t.csv, line 3",),
    ),
    "not UTF-8": (file("t.txt", b"a cat\n\xff\xfe dog\n"), TRAIN_DATA, ("t.txt, line 2", "UTF-8")),
    "broken JSON": (file("t.jsonl", '{"text": "a cat"}\n{"text": \n'), TRAIN_DATA, ("t.jsonl, line 2",)),
    "not parquet": (file("t.parquet", b"not parquet at all"), TRAIN_DATA, ("t.parquet",)),
    "truncated gzip": (truncated_gzip, TRAIN_DATA, ("texts.txt.gz",)),
    "unknown suffix": (file("texts.docx", "a cat"), TRAIN_DATA, (".docx",)),
    "folder without text": (empty_folder, TRAIN_DATA, ("nothing",)),
    # options
    "unknown recipe": (lambda folder: {}, ("train", "sgopt", "--output", "{out}"), ("sgopt", "sg-opt")),
    "unknown setting": (
        file("t.txt", SENTENCES),
        (*TRAIN_DATA, "--set", "tempperature=1"),
        ("tempperature",),
    ),
    "unknown loss option": (
        file("t.txt", SENTENCES),
        (*TRAIN_DATA, "--set", "loss_options.view_poling=max"),
        ("view_poling",),
    ),
    "impossible layers": (
        file("t.txt", SENTENCES),
        (*TRAIN_DATA, "--set", "loss_options.temperature=0"),
        ("temp",),
    ),
    "negative batch": (file("t.txt", SENTENCES), (*TRAIN_DATA, "--batch-size", "-4"), ("batch_size", "-4")),
    "NaN learning rate": (
        file("t.txt", SENTENCES),
        (*TRAIN_DATA, "--learning-rate", "nan"),
        ("learning_rate",),
    ),
    "repeated seeds": (file("t.txt", SENTENCES), (*TRAIN_DATA, "--seeds", "1,1"), ("seeds",)),
    "unknown key in TOML": (
        file("c.toml", "epochz = 2\n"),
        (*TRAIN, "--config", "{data}"),
        ("c.toml", "epochz"),
    ),
    "broken TOML": (file("c.toml", "epochs = = 2\n"), (*TRAIN, "--config", "{data}"), ("c.toml",)),
    "output that holds something": (taken_output, TRAIN_DATA, ("out", "--output")),
    "output that leads back": (
        file("t.txt", SENTENCES),
        (*TRAIN_DATA[:-1], "{bert}/../none.txt", "--output", "{out}/.."),
        ("does not contain a run",),
    ),
    "numbers without end": (
        lambda folder: {},
        ("experiment", "few-shot", "--values", "9" * 400, "--explain"),
        ("--values",),
    ),
    "unwritable output": (file("t.txt", SENTENCES), (*TRAIN_DATA, "--output", "/proc/sentemb"), ("/proc",)),
    "role without a column": (
        file("t.csv", "sentence1,sentence2\na cat,a dog\nbirds,two birds\n"),
        ("train", "simcse-supervised", *TRAIN_DATA[2:], "--columns", "sentence1"),
        ("simcse-supervised", "t.csv", "'sentence1'", "--columns ANCHOR,POSITIVE"),
    ),
    "pairs of texts in one column": (
        file("t.txt", SENTENCES),
        ("train", "simcse-nli", *TRAIN_DATA[2:]),
        ("simcse-nli", "t.txt", "--columns"),
    ),
    # models
    "unknown model": (
        file("t.txt", SENTENCES),
        (*TRAIN_DATA, "--base", "nobody/nothing"),
        ("nobody/nothing",),
    ),
    "folder without model": (
        not_a_model,
        (*TRAIN, "--base", "{data}", "--data", "{data}/notes.txt"),
        ("plain",),
    ),
    "unknown pooling": (
        truncated_sts,
        ("eval", "sts", "{bert}", *STUB, "--pooling", "average"),
        ("average", "mean"),
    ),
    # evaluation
    "unknown set": (lambda folder: {}, (*STS, "--sets", "sts17"), ("sts17",)),
    "no data": (
        lambda folder: {"data": str(folder)},
        (*STS, "--sets", "stsb", "--data-dir", "{data}"),
        ("stsb",),
    ),
    "gold file of another length": (
        mismatched_sts,
        (*STS, "--sets", "sts12", "--data-dir", "{data}"),
        ("MSRpar", "1", "2"),
    ),
    "truncated data set": (
        truncated_sts,
        (*STS, "--sets", "stsb", "--data-dir", "{data}"),
        ("1", "1,379", "--allow-count-mismatch"),
    ),
    "NaN score in a dev set": (
        file("dev.tsv", PAIRS.replace("4.0", "nan")),
        (*TRAIN[:-2], "--data", "{data}", "--columns", "sentence1", "--dev", "{data}"),
        ("dev.tsv:3", "score"),
    ),
    "row without a label": (
        file("mine.csv", "text,label\na cat,x\nthe dog,\n"),
        ("eval", "transfer", "{bert}", "--pooling", "cls", "--tasks", "{data}", "--output", "{out}"),
        ("mine.csv:3", "'label'"),
    ),
    "no record to report": (not_an_index, ("report", "{data}", "--output", "{out}"), ("plain",)),
    # search
    "no index": (not_an_index, ("index", "search", "{data}", "a cat"), ("plain",)),
    "zero hits wanted": (not_an_index, ("index", "search", "{data}", "a cat", "-k", "0"), ()),
    "ids found by name and given twice": (
        file("d.csv", "id;text\n1;a cat\n1;the dog\n"),
        BUILD,
        ("'1'", "d.csv:2", "d.csv:3", "--id-column"),
    ),
    "blank sentence in graded pairs": (
        file("pairs.tsv", PAIRS.replace("birds fly\t4.0", "\t4.0")),
        (*STS, "--sets", "{data}"),
        ("pairs.tsv:3", "'sentence2'"),
    ),
    "ids given twice": (
        file("d.csv", "id,text\n1,a cat\n1,the dog\n"),
        (*BUILD, "--text-column", "text", "--id-column", "id"),
        ("1", "d.csv:2", "d.csv:3"),
    ),
    "blank corpus": (file("d.jsonl", '{"text": ""}\n'), (*BUILD, "--text-column", "text"), ("document",)),
    "memory budget of nonsense": (file("d.txt", SENTENCES), (*BUILD, "--memory-budget", "many"), ("many",)),
    # data
    "unknown data set": (lambda folder: {}, ("data", "info", "sts21"), ("sts21", "did you mean")),
    "recipe of another kind": (
        file("t.csv", "text,label\na cat,1\nthe dog,2\n"),
        ("tune", "simcse", "{data}", "--grid", "epochs=1", "--base", "{bert}", "--output", "{out}"),
        ("simcse", "ce-views"),
    ),
    "variable that is not set": (
        file("t.csv", "text,label\na cat,1\nthe dog,2\n"),
        (*TRAIN_DATA, "--columns", ""),
        ("--columns",),
    ),
    "option that is none": (lambda folder: {}, ("data", "list", "--colour"), ("--colour",)),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_user_error_is_one_line_and_exit_code_2(
    case: str,
    tmp_path: Path,
    tiny_bert: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    make, arguments, expected = CASES[case]
    names = {"tmp": str(tmp_path), "bert": str(tiny_bert), "out": str(tmp_path / "out"), **make(tmp_path)}
    with pytest.raises(SystemExit) as left:
        run([argument.format(**names) for argument in arguments])
    errors = capsys.readouterr().err
    assert left.value.code == 2, errors
    assert "Traceback" not in errors
    last = errors.strip().splitlines()[-1]
    assert "error" in last.lower()
    for fragment in expected:
        assert fragment in last
    left_behind = tmp_path / "out"
    if case != "output that holds something":
        assert not left_behind.exists()
    else:
        assert sorted(path.name for path in left_behind.iterdir()) == ["thesis.tex"]


def test_a_line_of_a_hundred_thousand_characters_is_fine(
    tmp_path: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "long.txt"
    data.write_text("the cat " * 12_500 + "\n" + SENTENCES)
    output = tmp_path / "index"
    run_to_success(
        "index", "build", str(data), "--model", str(tiny_bert), "--pooling", "mean", "--output", str(output)
    )
    run_to_success("index", "search", str(output), "the cat the cat", "-k", "1")
    assert "the cat the cat" in capsys.readouterr().out


def run_to_success(*arguments: str) -> None:
    with pytest.raises(SystemExit) as left:
        run(list(arguments))
    assert left.value.code in (0, None)
