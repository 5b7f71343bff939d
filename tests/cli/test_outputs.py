"""No verb that writes replaces what it reads, and own files are taken wherever a data set has a name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command

NOUNS = "cat dog man woman birds children".split()
PAIRS = "sentence1,sentence2,score\n" + "".join(
    f"the {NOUNS[n % 6]} {NOUNS[n // 6]} sat,a {NOUNS[n % 5]} {NOUNS[n % 4]} ran,{n % 6}\n" for n in range(30)
)
LABELLED = "text,label\n" + "".join(
    f"the {NOUNS[n % 6]} {NOUNS[n // 6]} {('sat', 'ran')[n % 2]},{('good', 'bad')[n % 2]}\n"
    for n in range(36)
)
# Verb to its arguments, where {file} is what is read, and what would be written.
VERBS = {
    "train": "train sg-opt --base bert-mini --dev none --data {file} -o {file}",
    "train in the folder of the data": "train sg-opt --base bert-mini --dev none --data {file} -o {folder}",
    "train a classifier": "train lacon --base bert-mini --train {file} -o {folder}",
    "train a flow": "train flow --base bert-mini --data {file} -o {folder}",
    "pretrain": "train mlm --base bert-mini --corpus {file} -o {folder}",
    "train the multi-task model": "train table10-2e-5 --base bert-mini --nli {file} -o {folder}",
    "eval sts": "eval sts bert-mini --sets {file} -o {file}",
    "eval geometry": "eval geometry bert-mini --data {file} -o {file}",
    "eval transfer": "eval transfer {file} -o {file}",
    "eval all": "eval all {file} -o {file}",
    "experiment": "experiment full lacon --sets {file} -o {file}",
    "tune": "tune lacon {file} --grid learning_rate=1e-4,1e-5 -o {file}",
    "report": "report {folder} -o {file}",
    "report over labels": "report {folder} -o {folder}/labels.toml",
    "classify": "classify bert-mini {file} -o {file}",
    "analyse map": "analyse map bert-mini --data {picture} -o {picture}",
    "analyse classes": "analyse classes {folder} --data {picture} -o {picture}",
    "analyse geometry": "analyse geometry {folder} -o {file}",
    "analyse layers": "analyse layers bert-mini --sets {file} -o {file}",
    "split-pairs": "data split-pairs {folder}/train.jsonl -o {folder}",
    "nli-triples": "data nli-triples {file} -o {file}",
    "nli-triples in a folder that is read": "data nli-triples {folder} -o {file}",
    "mine-negatives": "data mine-negatives {file} -m bert-mini -o {file}",
    "mine-negatives from a corpus": "data mine-negatives other.csv --corpus {file} -m bert-mini -o {file}",
    "overlap": "data overlap {file} -o {file}",
    "overlap with sets": "data overlap other.csv --sets {file} -o {file}",
    "back-translate": "data back-translate {file} --forward x --backward y -o {file}",
    "noisy-copies": "data noisy-copies {file} --forward x --backward y -o {file}",
    "index build": "index build {file} -m bert-mini --overwrite -o {file}",
    "index build in the folder of the data": "index build {file} -m bert-mini --overwrite -o {folder}",
    "quickstart": "quickstart --overwrite --data {file} -o {file}",
    "quickstart over its data": "quickstart --overwrite --data {folder}/model/mine.csv -o {folder}",
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_replaces_what_it_reads(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentemb: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    (folder / "model").mkdir(parents=True)
    names = ("mine.csv", "train.jsonl", "picture.png", "labels.toml", "model/mine.csv", ".sentemb-quickstart")
    for name in names:
        (folder / name).write_text(PAIRS)
    (tmp_path / "other.csv").write_text(PAIRS)
    words = VERBS[verb].format(file=folder / "mine.csv", picture=folder / "picture.png", folder=folder)
    code, _, err = sentemb(*words.split())
    last = err.splitlines()[-1]
    assert code == 2 and last.startswith("sentemb: error: ") and str(folder) in last
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {*names}
    assert all((folder / name).read_text() == PAIRS for name in names)


FILES = {
    "report": "report {folder} -o {other}.html",
    "classify": "classify bert-mini {file} -o {other}.csv",
    "analyse map": "analyse map bert-mini --data {file} -o {other}.png",
    "analyse classes": "analyse classes bert-mini --data {file} -o {other}.png",
    "split-pairs": "data split-pairs {file} -o {other}",
    "nli-triples": "data nli-triples {file} -o {other}.csv",
    "mine-negatives": "data mine-negatives {file} -m bert-mini -o {other}.csv",
    "overlap": "data overlap {file} --sets {file} -o {other}.json",
    "back-translate": "data back-translate {file} --forward x --backward y -o {other}.csv",
    "noisy-copies": "data noisy-copies {file} --forward x --backward y -o {other}.csv",
}


@pytest.mark.parametrize("verb", FILES)
def test_no_verb_replaces_a_file_unasked(verb: str, tmp_path: Path, sentemb: Command) -> None:
    file, other = tmp_path / "mine.csv", tmp_path / "other"
    file.write_text(PAIRS)
    words = FILES[verb].format(folder=tmp_path, file=file, other=other).split()
    there = Path(words[-1]) if Path(words[-1]).suffix else other / "dev.jsonl"
    there.parent.mkdir(exist_ok=True)
    there.write_text("of another day\n")
    code, _, err = sentemb(*words)
    assert code == 2
    assert f"{there} already exists; choose another output, or add --overwrite" in err.splitlines()[-1]
    assert there.read_text() == "of another day\n"


def test_a_file_is_replaced_where_that_is_wanted(tmp_path: Path, sentemb: Command) -> None:
    (tmp_path / "mine.csv").write_text(PAIRS)
    (tmp_path / "found.json").write_text("of another day\n")
    words = ("data", "overlap", tmp_path / "mine.csv", "--sets", tmp_path / "mine.csv")
    code, _, _ = sentemb(*words, "-o", tmp_path / "found.json", "--overwrite")
    assert code == 0 and (tmp_path / "found.json").read_text().startswith("{")


def test_own_files_are_taken_where_sets_have_names(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentemb: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_bert, "tiny")
    Path("pairs.csv").write_text(PAIRS)
    Path("mine.csv").write_text(LABELLED)
    Path("texts.txt").write_text("the cat sat\na bird flies over the house\n")
    for words in (
        "eval sts tiny --sets pairs.csv",
        "eval geometry tiny --data pairs.csv",
        "analyse map tiny --data pairs.csv --pairs 4 -o map.png",
        "analyse layers tiny --sets pairs.csv",
        "train lacon --base tiny --train mine.csv --validation mine.csv --max-steps 1 -o classifier",
        "classify classifier mine.csv -o classes.csv",
        "analyse classes classifier --data mine.csv --rows 10 -o classes.png",
        "experiment full lacon --sets mine.csv --base tiny --seeds 1 --set max_steps=1 -o experiment",
        "tune lacon mine.csv --base tiny --grid learning_rate=1e-4 --set max_steps=1 -o tuned",
        "data overlap texts.txt --sets pairs.csv,mine.csv -o overlap.json",
    ):
        code, _, err = sentemb(*words.split())
        assert code in (0, None), f"{words}: {err}"
        assert "Traceback" not in err
    assert Path("classes.csv").read_text().count("\n") == 37
    assert "mine accuracy" in Path("experiment/full.md").read_text()
    assert "[lacon]" in Path("tuned/lacon.mine.toml").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        "encode texts.txt -o s3://bucket/vectors",
        "encode texts.txt -o lancedb:vectors",
        "index build texts.txt -o s3://bucket/index",
        "index move absent --to s3://bucket/index",
        "plan 1e6 -o memory://plan.json",
        "data overlap texts.txt -o file:///plan.json",
        "data mine-negatives texts.txt -o gs://bucket/triples.jsonl",
        "train simcse --data texts.txt -o s3://bucket/model",
        "eval sts static-mini -o s3://bucket/records",
        "encode texts.txt -o vectors --cache-dir s3://bucket/cache",
        "data fetch stsb --data-dir s3://bucket/sets",
        "tune lacon texts.txt --grid learning_rate=1e-4,1e-5 -o s3://bucket/tuned",
        "quickstart -o s3://bucket/page",
    ],
)
def test_no_output_is_a_uri(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentemb: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("one\n")
    code, _, err = sentemb(*arguments.split())
    assert code == 2
    assert ": outputs must be local paths; write to a local path, and" in err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]
