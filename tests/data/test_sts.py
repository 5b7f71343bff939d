from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.catalogue import get
from sentemb.data.sts import STS_SETS, ScoredPairs, Subset, load_scored_pairs, read_scored_pairs
from sentemb.errors import InputError

SIZES = {
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "stsb": 1379,
    "sickr": 4927,
    "sickr-mteb": 9927,
}
PARTS = {
    "sts12": [750, 750, 459, 750, 399],
    "sts13": [189, 750, 561],
    "sts14": [450, 300, 750, 750, 750, 750],
    "sts15": [375, 750, 375, 750, 750],
    "sts16": [254, 249, 230, 244, 209],
}


@pytest.mark.parametrize("layout", ["", "senteval", "senteval/downstream", "senteval_tok"])
@pytest.mark.parametrize("name", SIZES)
def test_real_sets_have_their_published_sizes(shared_data: Path, name: str, layout: str) -> None:
    pairs = load_scored_pairs(name, data_dir=shared_data / layout)
    assert len(pairs) == len(pairs.first) == len(pairs.second) == len(pairs.gold) == SIZES[name]
    sizes = [subset.stop - subset.start for subset in pairs.subsets]
    assert sizes == PARTS.get(name, [SIZES[name]])
    assert pairs.gold.dtype == np.float64
    assert 0 <= pairs.gold.min() < pairs.gold.max() <= 5
    assert not pairs.undivided


def test_the_seven_sets_are_those_of_the_papers() -> None:
    assert STS_SETS == ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")


def test_values_stand_beside_their_scores(shared_data: Path) -> None:
    stsb = load_scored_pairs("stsb", data_dir=shared_data)
    assert (stsb.first[0], stsb.second[0], stsb.gold[0]) == (
        "A girl is styling her hair.",
        "A girl is brushing her hair.",
        2.5,
    )
    sickr = load_scored_pairs("sickr", data_dir=shared_data)
    assert sickr.first[0] == "There is no boy playing outdoors and there is no man smiling"
    assert sickr.gold[0] == 3.3
    tokenized = load_scored_pairs("stsb", data_dir=shared_data / "senteval_tok")
    assert tokenized.first[0] == "a girl is styling her hair ."
    assert np.array_equal(tokenized.gold, stsb.gold)


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


def test_splits_of_the_benchmark_and_sick(shared_data: Path) -> None:
    for name, sizes in {"stsb": (5749, 1500, 1379), "sickr": (4500, 500, 4927)}.items():
        found = [
            len(load_scored_pairs(name, split=split, data_dir=shared_data))
            for split in ("train", "dev", "test")
        ]
        assert tuple(found) == sizes


def test_the_data_folder_comes_from_the_environment(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTEMB_DATA", str(shared_data))
    assert len(load_scored_pairs("sts13")) == 1500


def cut(path: Path, lines: int) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


def test_truncated_benchmark_is_refused_unless_allowed(sets_copy: Path) -> None:
    cut(sets_copy / "senteval/downstream/STS/STSBenchmark/sts-test.csv", 2)
    with pytest.raises(
        InputError, match=r"stsb test .* has 1,377 rows instead of 1,379: 2 missing.*check_rows=False"
    ):
        load_scored_pairs("stsb", data_dir=sets_copy)
    assert len(load_scored_pairs("stsb", data_dir=sets_copy, check_rows=False)) == 1377


def test_a_lost_score_names_its_part(sets_copy: Path) -> None:
    gold = sets_copy / "senteval/downstream/STS/STS15-en-test/STS.gs.belief.txt"
    lines = gold.read_text().split("\n")
    lines[next(index for index, line in enumerate(lines) if line)] = ""
    gold.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"part belief has 374 rows instead of 375: 1 missing"):
        load_scored_pairs("sts15", data_dir=sets_copy)


def test_too_many_rows_are_refused_too(sets_copy: Path) -> None:
    sick = sets_copy / "senteval/downstream/SICK/SICK_test_annotated.txt"
    sick.write_text(sick.read_text() + "1\ta\tb\t3.0\tNEUTRAL\n")
    with pytest.raises(InputError, match=r"4,928 rows instead of 4,927: 1 more than expected"):
        load_scored_pairs("sickr", data_dir=sets_copy)


@pytest.mark.parametrize(
    ("file", "content", "fragment"),
    [
        ("STS/STS13-en-test/STS.gs.FNWN.txt", "1.0\n", "has 189 pairs but"),
        (
            "STS/STS13-en-test/STS.gs.FNWN.txt",
            "nan\n" * 189,
            "FNWN.txt:1: expected a number in column 'score', but found 'nan'",
        ),
        (
            "STS/STS13-en-test/STS.gs.FNWN.txt",
            "x\n" * 189,
            "FNWN.txt:1: expected a number in column 'score', but found 'x'",
        ),
        (
            "STS/STS13-en-test/STS.input.FNWN.txt",
            "one sentence\n" * 189,
            "line 1: expected two sentences with a tab",
        ),
        (
            "STS/STS13-en-test/STS.input.FNWN.txt",
            b"a\tb\n\xff\tb\n" * 189,
            "line 2: byte 4 is not utf-8 (0xff)",
        ),
        (
            "STS/STSBenchmark/sts-test.csv",
            "g\tf\ty\ti\t1.0\tonly one\n",
            "line 1: 6 fields, but the header has 9",
        ),
        (
            "STS/STSBenchmark/sts-test.csv",
            "g\tf\ty\ti\tinf\ta\tb\n",
            "sts-test.csv:1: expected a number in column 'score', but found 'inf'",
        ),
        ("STS/STSBenchmark/sts-test.csv", "", "does not contain scored pairs"),
        (
            "SICK/SICK_test_annotated.txt",
            "a\tb\tc\n",
            "does not have a column 'sentence_A'; its columns are a, b, c",
        ),
        ("SICK/SICK_test_annotated.txt", "", "does not contain scored pairs"),
    ],
)
def test_broken_files_are_named(sets_copy: Path, file: str, content: str | bytes, fragment: str) -> None:
    path = sets_copy / "senteval/downstream" / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    name = {"STS13-en-test": "sts13", "STSBenchmark": "stsb", "SICK": "sickr"}[path.parent.name]
    with pytest.raises(InputError) as caught:
        load_scored_pairs(name, data_dir=sets_copy)
    assert fragment in str(caught.value)


def test_a_missing_part_is_named(sets_copy: Path) -> None:
    (sets_copy / "senteval/downstream/STS/STS13-en-test/STS.input.OnWN.txt").unlink()
    with pytest.raises(InputError, match=r"no such file: .*STS\.input\.OnWN\.txt"):
        load_scored_pairs("sts13", data_dir=sets_copy)


def test_bytes_that_end_lines_elsewhere_do_not_here(sets_copy: Path) -> None:
    """NEL, form feed and line separators are text; extra columns, CRLF and a byte order mark are not."""
    folder = sets_copy / "senteval/downstream/STS/STS13-en-test"
    rows = ["\ufeffone\u0085two\ta\x0cb\tnote\tnote", "c\u2028d\te\r", '"q\t"r"', "\tempty first"]
    (folder / "STS.input.FNWN.txt").write_bytes("\n".join([*rows, ""]).encode())
    (folder / "STS.gs.FNWN.txt").write_bytes(b"1.0\n\n2.5\r\n3\n")
    pairs = load_scored_pairs("sts13", data_dir=sets_copy, check_rows=False)
    stop = pairs.subsets[0].stop
    assert pairs.first[:stop] == ["one\u0085two", '"q', ""]
    assert pairs.second[:stop] == ["a\x0cb", '"r"', "empty first"]
    assert pairs.gold[:stop].tolist() == [1.0, 2.5, 3.0]


def test_reads_mtebs_copy_and_says_that_it_is_not_divided(tmp_path: Path) -> None:
    rows = [{"sentence1": f"a {n}", "sentence2": f"b {n}", "score": n / 1000} for n in range(3108)]
    folder = tmp_path / "sts12"
    folder.mkdir()
    (folder / "test.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    pairs = load_scored_pairs("sts12", data_dir=tmp_path)
    assert pairs.undivided
    assert pairs.subsets == (Subset("sts12", 0, 3108),)
    assert pairs.gold[-1] == 3.107
    rows.pop()
    (folder / "test.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    with pytest.raises(InputError, match="has 3,107 rows instead of 3,108: 1 missing"):
        load_scored_pairs("sts12", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "split", "folder", "fragment"),
    [
        ("sts12", "dev", "", "sts12 does not have a split 'dev'; choose one of test"),
        ("sts12b", "test", "", "unknown data set 'sts12b'; did you mean"),
        ("sts17", "test", "", "sts17 is a family of data sets; name one of sts17-ar-ar"),
        ("nli-triples", "test", "", "nli-triples does not contain scored pairs"),
        ("stsb", "test", "empty", "download it with `sentemb data fetch stsb --data-dir"),
        ("stsb", "test", "absent", "no such data folder"),
    ],
)
def test_what_is_not_there(tmp_path: Path, name: str, split: str, folder: str, fragment: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        load_scored_pairs(name, split=split, data_dir=tmp_path / folder if folder else tmp_path)
    assert fragment in str(caught.value)


def test_a_data_folder_that_is_a_file_is_refused(write_file: Callable[[str, str], Path]) -> None:
    with pytest.raises(InputError, match=r"senteval\.tar is a file; unpack it, and name the folder"):
        load_scored_pairs("stsb", data_dir=write_file("senteval.tar", "hello"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.tsv", 'a\tb\tscore\n"x\ty\t1\nu\tv\t0.5\n'),
        ("mine.csv", 'score,a,b\n1,"""x",y\n0.5,u,v\n'),
        ("excel.csv", 'score;a;b\n1;"""x";y\n0.5;u;v\n'),
        ("mine.jsonl", '{"a": "\\"x", "b": "y", "score": 1}\n{"a": "u", "b": "v", "score": "0.5"}\n'),
    ],
)
def test_own_pairs_in_any_table(write_file: Callable[[str, str], Path], name: str, content: str) -> None:
    pairs = read_scored_pairs(write_file(name, content), first="a", second="b")
    assert (pairs.first, pairs.second, pairs.gold.tolist()) == (['"x', "u"], ["y", "v"], [1.0, 0.5])
    assert (pairs.name, len(pairs.subsets)) == (name.split(".")[0], 1)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("mine.tsv", "sentence1\tsentence2\tscore\nx\ty\t1\n \tv\t0.5\n", 3),
        ("mine.csv", "sentence1,sentence2,score\nx,,1\n", 2),
        ("mine.jsonl", '{"sentence1": "u", "sentence2": " ", "score": "0.5"}\n', 1),
    ],
)
def test_a_blank_sentence_of_own_pairs_is_named(
    write_file: Callable[[str, str], Path], name: str, content: str, line: int
) -> None:
    with pytest.raises(InputError, match=rf"{name}:{line}: column 'sentence[12]' is empty"):
        load_scored_pairs(write_file(name, content))


def test_own_pairs_in_glues_layout(shared_data: Path) -> None:
    pairs = read_scored_pairs(shared_data / "glue" / "STS-B" / "dev.tsv", split="dev")
    real = load_scored_pairs("stsb", split="dev", data_dir=shared_data)
    assert pairs.first == real.first
    assert np.array_equal(pairs.gold, real.gold)


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (
            "sentence1,sentence2,score\na,b,NaN\n",
            "own.csv:2: expected a number in column 'score', but found 'NaN'",
        ),
        (
            "sentence1,sentence2,score\na,b,-1e308\n",
            "own.csv:2: expected a number in column 'score', but found '-1e308'",
        ),
        ("sentence1,sentence2,score\na,b,\n", "own.csv:2: expected a number in column 'score', but found ''"),
        ("sentence1;sentence2;score\na;b;0,5\n", "but found '0,5'; write decimals with"),
        (
            "sentence1,sentence2,grade\na,b,1\n",
            "does not have a column 'score'; its columns are sentence1, sentence2, grade",
        ),
        ("sentence1,sentence2,score\n", "own.csv is empty"),
        (
            "Ein Mann isst.,Jemand isst.,4\nA,B,1\n",
            "Ein Mann isst., Jemand isst., 4; rename them to sentence1",
        ),
        ("sentence1,sentence2,score\na,b\n", "own.csv, line 2: 2 fields, but the header has 3"),
    ],
)
def test_errors_in_own_pairs(write_file: Callable[[str, str], Path], content: str, fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        read_scored_pairs(write_file("own.csv", content))
    assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("second", "gold", "subsets", "fragment"),
    [
        (["b"], [1.0, 2.0], (), "got 2 first sentences, 1 second sentences"),
        (["b", "c"], [1.0], (), "gold scores of shape (1,)"),
        (["b", "c"], [1.0, float("nan")], (), "the score of pair 1 is nan"),
        (["b", "c"], [1.0, 2.0], (Subset("p", 0, 1),), "do not cover its 2 pairs"),
        (["b", "c"], [1.0, 2.0], (Subset("p", 0, 1), Subset("q", 0, 2)), "do not cover its 2 pairs"),
    ],
)
def test_pairs_that_do_not_fit_together(
    second: list[str], gold: list[float], subsets: tuple[Subset, ...], fragment: str
) -> None:
    with pytest.raises(InputError) as caught:
        ScoredPairs("x", "test", ["a", "b"], second, np.array(gold), subsets)
    assert fragment in str(caught.value)


def test_catalogue_and_set_names_agree() -> None:
    for name in SIZES:
        assert get(name).rows["test"] == SIZES[name]
        assert list(get(name).parts.values()) == PARTS.get(name, [])


def test_what_an_option_names_is_a_file_or_a_set(
    write_file: Callable[[str, str], Path], shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_file("stsb.tsv", "sentence1\tsentence2\tscore\na cat\ta dog\t1\n")
    own = load_scored_pairs(str(table))
    assert (own.name, own.split, own.first) == ("stsb", "all", ["a cat"])
    assert len(load_scored_pairs("stsb", data_dir=shared_data, split="dev")) == 1500
    assert load_scored_pairs(table, split="test").split == "test"
    monkeypatch.chdir(table.parent)
    table.with_name("stsb").write_text("not a table")  # a name of the catalogue goes before such a file
    assert len(load_scored_pairs("stsb", data_dir=shared_data)) == 1379
    with pytest.raises(InputError, match=r"absent\.csv"):
        load_scored_pairs(str(table.with_name("absent.csv")))
    with pytest.raises(InputError, match="stsx"):
        load_scored_pairs("stsx", data_dir=shared_data)


@pytest.mark.parametrize(
    ("name", "header", "split"),
    [
        ("news-dev.csv", "sentence_A,sentence_B,relatedness_score", "dev"),
        ("test_news.csv", "id,Text1,Text2,Gold", "test"),
        ("contest.csv", "similarity,premise,hypothesis", "all"),
    ],
)
def test_usual_columns_and_the_split_in_a_name(
    write_file: Callable[[str, str], Path], name: str, header: str, split: str
) -> None:
    cells = ["1" if word.lower() in ("id", "gold", "similarity", "relatedness_score") else "a text"
             for word in header.split(",")]  # fmt: skip
    pairs = load_scored_pairs(write_file(name, f"{header}\n{','.join(cells)}\n"))
    assert (pairs.name, pairs.split, pairs.gold.tolist()) == (name.removesuffix(".csv"), split, [1.0])
