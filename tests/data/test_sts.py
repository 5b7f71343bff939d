"""Scored pairs: the STS sets in every layout and language, users' tables, broken files."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.catalogue import expand, get
from sentemb.data.fetch import count
from sentemb.data.sts import STS_SETS, ScoredPairs, Subset, load_scored_pairs, read_scored_pairs
from sentemb.errors import InputError

Write = Callable[[str, "str | bytes"], Path]
SIZES = {
    "sts12": [750, 750, 459, 750, 399],
    "sts13": [189, 750, 561],
    "sts14": [450, 300, 750, 750, 750, 750],
    "sts15": [375, 750, 375, 750, 750],
    "sts16": [254, 249, 230, 244, 209],
    "stsb": [1379],
    "sickr": [4927],
    "sickr-mteb": [9927],
}


@pytest.mark.parametrize("name", SIZES)
def test_real_sets_have_their_published_sizes(shared_data: Path, name: str) -> None:
    pairs = load_scored_pairs(name, data_dir=shared_data)
    for layout in ("senteval", "senteval/downstream", "senteval_tok"):
        assert len(load_scored_pairs(name, data_dir=shared_data / layout)) == len(pairs)
    assert len(pairs) == len(pairs.first) == len(pairs.second) == len(pairs.gold) == sum(SIZES[name])
    assert [subset.stop - subset.start for subset in pairs.subsets] == SIZES[name]
    assert get(name).rows["test"] == len(pairs) and list(get(name).parts.values()) in (SIZES[name], [])
    assert pairs.gold.dtype == np.float64 and not pairs.undivided
    assert 0 <= pairs.gold.min() < pairs.gold.max() <= 5


def test_values_are_next_to_their_scores(shared_data: Path) -> None:
    assert STS_SETS == ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
    girl, boy = "A girl is styling her hair.", "There is no boy playing outdoors and there is no man smiling"
    for name, first, gold in (("stsb", girl, 2.5), ("sickr", boy, 3.3)):
        pairs = load_scored_pairs(name, data_dir=shared_data)
        assert (pairs.first[0], pairs.gold[0]) == (first, gold)
    stsb = load_scored_pairs("stsb", data_dir=shared_data)
    tokenized = load_scored_pairs("stsb", data_dir=shared_data / "senteval_tok")
    assert tokenized.first[0] == "a girl is styling her hair ."
    assert np.array_equal(tokenized.gold, stsb.gold)
    assert np.array_equal(load_scored_pairs("stsb-ja", data_dir=shared_data).gold, stsb.gold)
    german = load_scored_pairs("stsb-de", split="dev", data_dir=shared_data)
    assert german.second[1] == "Ein Kind reitet auf einem Pferd."
    assert any("," in text for text in german.first)  # quoted in the file
    arabic = load_scored_pairs("sts17-ar-en", data_dir=shared_data)
    assert (arabic.first[0], arabic.second[0], arabic.gold[0]) == ("two men are crying", "رجلان يضحكان.", 1.4)
    assert [subset.name for subset in arabic.subsets] == ["sts17-ar-en"]


def test_scores_and_texts_of_sets_with_unscored_pairs_stay_together(shared_data: Path) -> None:
    """Counted by hand from the files: the n-th scored pair of a part is the n-th line with a score."""
    folder = shared_data / "senteval" / "downstream" / "STS" / "STS16-en-test"
    pairs = load_scored_pairs("sts16", data_dir=shared_data)
    for subset in pairs.subsets:
        texts = (folder / f"STS.input.{subset.name}.txt").read_bytes().decode().split("\n")
        scores = (folder / f"STS.gs.{subset.name}.txt").read_bytes().decode().split("\n")
        scored = [(text, float(score)) for text, score in zip(texts, scores, strict=True) if score]
        assert [text.split("\t")[0] for text, _ in scored] == pairs.first[subset.start : subset.stop]
        assert [score for _, score in scored] == pairs.gold[subset.start : subset.stop].tolist()


def test_splits_and_other_languages_are_whole(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTEMB_DATA", str(shared_data))
    for name, sizes in {"stsb": (5749, 1500, 1379), "sickr": (4500, 500, 4927)}.items():
        assert tuple(len(load_scored_pairs(name, split=s)) for s in ("train", "dev", "test")) == sizes
    for name in expand(["sts17", "stsb-multi-mt"]):
        for counted in count(get(name), shared_data):
            assert counted.problem is None and counted.rows == counted.expected


DOWNSTREAM = "senteval/downstream"
STSB, SICK = f"{DOWNSTREAM}/STS/STSBenchmark/sts-test.csv", f"{DOWNSTREAM}/SICK/SICK_test_annotated.txt"
GOLD, INPUT = (f"{DOWNSTREAM}/STS/STS13-en-test/STS.{kind}.FNWN.txt" for kind in ("gs", "input"))
BELIEF = f"{DOWNSTREAM}/STS/STS15-en-test/STS.gs.belief.txt"


@pytest.mark.parametrize(
    ("name", "file", "change", "message"),
    [
        ("stsb", STSB, lambda old: old[: old[:-1].rindex(b"\n") + 1], "stsb test .* 1 missing.*check_rows="),
        ("sickr", SICK, lambda old: old + b"1\ta\tb\t3.0\tNEUTRAL\n", "4,928 .*4,927: 1 more"),
        ("sts15", BELIEF, lambda old: re.sub(rb"(?m)^\d.*$", b"", old, count=1), "part belief has 374 rows"),
        ("sts13", GOLD, b"nan\n" * 189, r"FNWN\.txt:1: expected a number in column 'score', but found 'nan'"),
        ("sts13", INPUT, b"one sentence\n" * 189, "line 1: expected two sentences with a tab"),
        ("sts13", INPUT, b"a\tb\n\xff\tb\n" * 189, r"line 2: byte 4 is not utf-8 \(0xff\)"),
        ("sts13", INPUT, None, r"no such file: .*STS\.input\.FNWN\.txt"),
        ("stsb", STSB, b"g\tf\ty\ti\t1.0\tonly one\n", "line 1: 6 fields, but the header has 9"),
        ("stsb", STSB, b"g\tf\ty\ti\tinf\ta\tb\n", "csv:1: expected a number .*'score', but found 'inf'"),
        ("sickr", SICK, b"a\tb\tc\n", "does not have a column 'sentence_A'; its columns are a, b, c"),
    ],
)  # fmt: skip
def test_broken_files_are_named(sets_copy: Path, name: str, file: str, change: object, message: str) -> None:
    path = sets_copy / file
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change if isinstance(change, bytes) else change(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        load_scored_pairs(name, data_dir=sets_copy)
    if callable(change):
        load_scored_pairs(name, data_dir=sets_copy, check_rows=False)


def test_mtebs_copy_is_not_divided(tmp_path: Path, write_file: Write) -> None:
    rows = [json.dumps({"sentence1": f"a {n}", "sentence2": "b", "score": n / 1000}) for n in range(3108)]
    write_file("sts12/test.jsonl.gz", gzip.compress("\n".join(rows).encode()))
    pairs = load_scored_pairs("sts12", data_dir=tmp_path)
    assert pairs.undivided and pairs.subsets == (Subset("sts12", 0, 3108),) and pairs.gold[-1] == 3.107
    write_file("sts12/test.jsonl.gz", gzip.compress("\n".join(rows[:-1]).encode()))
    with pytest.raises(InputError, match="has 3,107 rows instead of 3,108: 1 missing"):
        load_scored_pairs("sts12", data_dir=tmp_path)


def test_spanish_parts_come_in_the_official_order(write_file: Write, tmp_path: Path) -> None:
    files = {
        "input.wikipedia": "uno\tdos\ntres\tcuatro\n", "gs.wikipedia": "4.0\n0.6\n",
        "input.news": "cinco\tseis\n", "gs.news": "2\n",
    }  # fmt: skip
    for name, content in files.items():
        write_file(f"sts-es-test.2014/STS.{name}.txt", content)
    pairs = load_scored_pairs("sts14-es", data_dir=tmp_path, check_rows=False)
    assert pairs.first == ["uno", "tres", "cinco"] and pairs.gold.tolist() == [4.0, 0.6, 2.0]
    assert [(one.name, one.start, one.stop) for one in pairs.subsets] == [("wikipedia", 0, 2), ("news", 2, 3)]
    with pytest.raises(InputError, match=r"part wikipedia has 2 rows instead of 324: 322 missing"):
        load_scored_pairs("sts14-es", data_dir=tmp_path)
    write_file("sts-es-test.2014/STS.gs.news.txt", "2\n3\n")
    with pytest.raises(InputError, match=r"STS.input.news.txt has 1 pairs but .*STS.gs.news.txt 2 scores"):
        load_scored_pairs("sts14-es", data_dir=tmp_path)


def test_scores_may_be_in_a_second_download(write_file: Write, tmp_path: Path) -> None:
    """As SemEval-2017 published: two archives, and more Turkish pairs than scores."""
    texts = "".join(f"one {number}\tbir {number}\n" for number in range(500))
    for track, scores in (("track6.tr-en", [n / 50 for n in range(250)]), ("track5.en-en", [1] * 250)):
        write_file(f"STS2017.eval.v1.1/STS.input.{track}.txt", texts)
        write_file(f"STS2017.gs/STS.gs.{track}.txt", "".join(f"{score}\n" for score in scores))
    pairs = load_scored_pairs("sts17-tr-en", data_dir=tmp_path)
    assert (len(pairs), pairs.first[249], pairs.gold[249]) == (250, "one 249", 4.98)
    with pytest.raises(InputError, match="has 500 pairs but"):  # of no other track
        load_scored_pairs("sts17-en-en", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "split", "folder", "message"),
    [
        ("sts12", "dev", "", "sts12 does not have a split 'dev'; choose one of test"),
        ("stsb", "test", "", "download it with `sentemb data fetch stsb --data-dir"),
        ("sts22-de", "test", "", "does not contain sts22-de .*download it with `sentemb data fetch sts22"),
        ("stsb", "test", "stsb-multi-mt/stsb-fr-dev.csv", "stsb-fr-dev.csv is a file; unpack it"),
        ("sts17-ar-ar", "test", "", r"no such file: .*/STS17/STS\.gs\.track1\.ar-ar\.txt"),
        ("stsb-fr", "test", "", r"no such file: .*stsb-fr-test.csv"),
        ("stsb-fr", "dev", "", "dev.csv:2: expected a number in column 'similarity_score', but found 'x'"),
        ("sts14-es", "test", None, "sts14-es is not on the hub; name the folder"),
    ],
)  # fmt: skip
def test_what_is_not_there(
    tmp_path: Path, write_file: Write, name: str, split: str, folder: str | None, message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    write_file("STS17/STS.input.track1.ar-ar.txt", "a\tb\n")
    write_file("stsb-multi-mt/stsb-fr-dev.csv", "un,deux,3\nun,deux,x\n")
    with pytest.raises(InputError, match=message):
        load_scored_pairs(name, split=split, data_dir=None if folder is None else tmp_path / folder)


@pytest.mark.parametrize(
    ("second", "gold", "subsets", "fragment"),
    [
        (["b"], [1.0, 2.0], (), "got 2 first sentences, 1 second sentences"),
        (["b", "c"], [1.0, float("nan")], (), "the score of pair 1 is nan"),
        (["b", "c"], [1.0, 2.0], (Subset("p", 0, 1), Subset("q", 0, 2)), "do not cover its 2 pairs"),
    ],
)
def test_pairs_that_do_not_fit_together(
    second: list[str], gold: list[float], subsets: tuple[Subset, ...], fragment: str
) -> None:
    with pytest.raises(InputError) as caught:
        ScoredPairs("x", "test", ["a", "b"], second, np.array(gold), subsets)
    assert fragment in str(caught.value)


def test_an_option_names_a_file_or_a_set(
    write_file: Write, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_file("stsb.tsv", "sentence1\tsentence2\tscore\na cat\ta dog\t1\n")
    own = load_scored_pairs(str(table))
    assert (own.name, own.split, own.first) == ("stsb", "all", ["a cat"])
    assert load_scored_pairs(table, split="test").split == "test"
    monkeypatch.chdir(table.parent)
    table.with_name("stsb").write_text("not a table")  # a name of the catalogue precedes such a file
    assert len(load_scored_pairs("stsb", data_dir=shared_data)) == 1379
    with pytest.raises(InputError, match=r"absent\.csv"):
        load_scored_pairs(str(table.with_name("absent.csv")))


@pytest.mark.parametrize(
    ("name", "header", "split"),
    [
        ("news-dev.csv", "sentence_A,sentence_B,relatedness_score", "dev"),
        ("test_news.csv", "id,Text1,Text2,Gold", "test"),
        ("contest.csv", "similarity,premise,hypothesis", "all"),
    ],
)
def test_usual_columns_and_the_split_in_a_name(write_file: Write, name: str, header: str, split: str) -> None:
    numbers = ("id", "gold", "similarity", "relatedness_score")
    texts = ["1" if word.lower() in numbers else word for word in header.split(",")]
    path = write_file(name, f"{header}\n{','.join(texts)}\n")
    pairs = load_scored_pairs(path)
    assert (pairs.name, pairs.split, pairs.gold.tolist()) == (name.removesuffix(".csv"), split, [1.0])
    swapped = read_scored_pairs(path, first=pairs.second[0], second=pairs.first[0])
    assert swapped.first == pairs.second  # a column of this table is called as its text
