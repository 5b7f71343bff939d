"""Labelled texts: the catalogue's sets as published, users' tables, probing tasks, and broken ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.catalogue import get
from sentemb.data.fetch import count
from sentemb.data.labelled import LabelledTexts, load_labelled, read_labelled, read_probe
from sentemb.data.locate import local_files, open_split
from sentemb.data.sources import read_rows
from sentemb.errors import InputError

Write = Callable[[str, str], Path]

# Checksums of the texts and labels of every split of at most 12,000 rows in the shared data folder.
GOLDEN: dict[str, str] = json.loads(Path(__file__).with_name("golden_labelled.json").read_text())


@pytest.mark.parametrize("name", sorted({key.partition(" ")[0] for key in GOLDEN}))
def test_real_sets_have_their_published_texts_and_labels(shared_data: Path, name: str) -> None:
    for split in (key.partition(" ")[2] for key in GOLDEN if key.partition(" ")[0] == name):
        data = load_labelled(name, split=split, data_dir=shared_data)
        assert data.describe()["sha256"].startswith(GOLDEN[f"{name} {split}"])
        assert (data.name, data.split, len(data)) == (name, split, get(name).rows.get(split, len(data)))
        assert data.labels.dtype == (np.int64 if data.label_names else np.float64)
    assert local_files(get(name), shared_data)


def test_quirks_of_published_texts_stay(shared_data: Path) -> None:
    products = load_labelled("cr", split="train", data_dir=shared_data)
    assert sum(not text.strip() for text in products.texts) == 4
    trec = load_labelled("trec", split="train", data_dir=shared_data)
    assert any("sisterðcity" in text for text in trec.texts)  # one Latin-1 byte
    mrpc = [load_labelled("mrpc", split=split, data_dir=shared_data) for split in ("train", "dev")]
    # GLUE's train and dev are the published training split, but for the spacing of a few pairs.
    published = {*load_labelled("mrpc-msr", split="train", data_dir=shared_data).rows()}
    ours = {row for part in mrpc for row in part.rows()}
    assert len(ours & published) > 0.99 * len(published) and sum(map(len, mrpc)) == 4076


def test_unlabelled_splits(shared_data: Path) -> None:
    with pytest.raises(InputError, match="labels of rte test are not published; use one of train, dev"):
        load_labelled("rte", split="test", data_dir=shared_data)
    for name, split, rows, columns in (("rte", "test", 3000, 2), ("eprstmt", "unlabelled", 19565, 1)):
        opened = open_split(get(name), split, shared_data)
        assert [len(row.values) for row in opened.rows] == [columns] * rows
    record = next(read_rows("rte", data_dir=shared_data))
    assert list(record.values) == ["sentence1", "sentence2", "label"] and record.number("label") == 1


RTE, MNLI = (
    "index\tsentence1\tsentence2\tlabel\n",
    "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label\n",
)
TREC, TNEWS, NEWS = (
    "senteval/downstream/TREC/TREC_10.label",
    "clue/FewCLUE/tnews/dev_0.json",
    "ag_news_csv/test.csv",
)
RTE_FILE, COLA_FILE, STSB_FILE = (f"glue/{name}/dev.tsv" for name in ("RTE", "CoLA", "STS-B"))
MATCHED = "glue/MNLI/dev_matched.tsv"
BROKEN = [
    ("rte", "dev", RTE_FILE, f"{RTE}0\ta\tb\n", "dev.tsv, line 2: 3 fields, but"),
    ("rte", "dev", RTE_FILE, f"{RTE}0\ta\tb\tmaybe\n", "dev.tsv:2: 'maybe' is not a lab"),
    ("rte", "dev", RTE_FILE, f"{RTE}0\ta\tb\t\n", "dev.tsv:2: the label is missing; remove"),
    ("rte", "dev", RTE_FILE, "index\tsentence1\tsentence2\n0\ta\tb\n", "not have a column 'label'; its"),
    ("rte", "dev", RTE_FILE, f'{RTE}0\t"a\tb\t0\n', "has 1 rows instead of 277: 276 missing"),
    ("cola", "dev", COLA_FILE, "gj04\t1\t\n", "dev.tsv, line 1: 3 fields, but the header has 4"),
    ("stsb-glue", "dev", STSB_FILE, "sentence1\tsentence2\tscore\na\tb\tnan\n", "'label', but found 'nan'"),
    ("mnli", "dev", MATCHED, f"{MNLI}0\t1\ta\tb\tneutral\t-\n", "'-' is not a label of mnli"),
    ("trec", "test", TREC, "NUM:dist\n", "line 1: expected a label, a space and a text"),
    ("tnews-few", "dev-0", TNEWS, '{"sentence": "a", "label": 111}\n', "'111' is not a label of tnews-few"),
    ("tnews-few", "dev-0", TNEWS, '{"sentence": "a"}\n', "line 1 does not have a column 'label'"),
    ("agnews", "test", NEWS, '"1","a\n', "test.csv, line 1: unexpected end of data"),
]


@pytest.mark.parametrize(("name", "split", "file", "content", "fragment"), BROKEN)
def test_broken_files_are_named(
    tmp_path: Path, write_file: Write, name: str, split: str, file: str, content: str, fragment: str
) -> None:
    write_file(file, content)
    with pytest.raises(InputError) as caught:
        load_labelled(name, split=split, data_dir=tmp_path)
    assert fragment in str(caught.value) and str(tmp_path) in str(caught.value)


def test_counts_that_differ_are_errors_unless_allowed(tmp_path: Path, shared_data: Path) -> None:
    (tmp_path / "RTE").mkdir()
    lines = (shared_data / "glue/RTE/dev.tsv").read_text(encoding="utf-8").split("\n")
    (tmp_path / "RTE/dev.tsv").write_text("\n".join(lines[:-4]) + "\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"rte dev \(.*RTE\) has 274 rows instead of 277: 3 missing; get a com"
    ):
        load_labelled("rte", split="dev", data_dir=tmp_path)
    assert len(load_labelled("rte", split="dev", data_dir=tmp_path, check_rows=False)) == 274
    (counted,) = count(get("rte"), tmp_path)
    assert (counted.split, counted.rows) == ("dev", 274) and "274 rows instead of 277" in str(counted.problem)


def test_other_layouts_of_published_sets(tmp_path: Path, write_file: Write) -> None:
    def load(name: str, file: str, content: str, split: str = "dev") -> LabelledTexts:
        write_file(file, content)
        return load_labelled(name, split=split, data_dir=tmp_path, check_rows=False)

    data = load("mnli-mm", "MNLI/dev_mismatched.tsv", MNLI + '0\t1\t"a\tb\tneutral\tcontradiction\n' * 3)
    assert (data.texts[0], data.pairs, data.labels.tolist()) == ('"a', ["b"] * 3, [2, 2, 2])
    rows = '1,"TY KU"," TY KU /taɪkuː/ is an ""American"" company."\n14,"B","C"\n'
    data = load("dbpedia", "dbpedia_csv/test.csv", rows, "test")
    assert (data.texts[0], data.labels.tolist()) == (' TY KU /taɪkuː/ is an "American" company.', [0, 13])
    lines = [json.dumps({"sentence": f"s{code}", "label": code}) for code in (100, 101, 116)]
    assert load("tnews", "tnews/dev.json", "\n".join(lines)).labels.tolist() == [0, 1, 14]
    write_file("SST-2/test.tsv", "index\tsentence\n0\tuneasy mishmash .\n")
    (row,) = open_split(get("sst2"), "test", tmp_path).rows
    assert row.values == {"sentence": "uneasy mishmash ."}


def test_rows_can_be_selected() -> None:
    data = LabelledTexts("x", "train", ["a", "b", "c"], ["d", "e", "f"], np.array([0, 1, 0]), ("n", "p"))
    chosen = data.select([2, 0], split="validation")
    assert (chosen.texts, chosen.pairs, chosen.labels.tolist()) == (["c", "a"], ["f", "d"], [0, 0])
    assert (chosen.split, chosen.class_counts) == ("validation", {"n": 2, "p": 0})
    with pytest.raises(InputError, match="x train does not contain labelled texts"):
        data.select([])


@pytest.mark.parametrize(
    ("pairs", "labels", "names", "fragment"),
    [
        (["c"], [0, 1], ("n", "p"), "x: got 2 texts, 1 second texts and labels of shape (2,)"),
        (None, [0, 2], ("n", "p"), "the label of row 1 is 2"),
        (None, [0.5, float("nan")], (), "the label of row 1 is nan"),
    ],
)
def test_labels_that_do_not_fit(
    pairs: list[str] | None, labels: list[float], names: tuple[str, ...], fragment: str
) -> None:
    with pytest.raises(InputError) as caught:
        LabelledTexts("x", "test", ["a", "b"], pairs, np.array(labels), names)
    assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        ("10 9 10 -1", ("-1", "9", "10"), [2, 1, 2, 0]),  # whole numbers sort as numbers
        ('10 9 "b" 9', ("10", "9", "b"), [0, 1, 2, 1]),
        ("true false true true", ("false", "true"), [1, 0, 1, 1]),
        ("1 0 1.0 0.0", ("0", "1"), [1, 0, 1, 0]),  # of one class in JSON, however written
    ],
)
def test_classes_are_sorted(
    write_file: Write, labels: str, names: tuple[str, ...], numbers: list[int]
) -> None:
    rows = "\n".join(f'{{"text": "t", "label": {label}}}' for label in labels.split())
    data = read_labelled(write_file("a.jsonl", rows))
    assert (data.label_names, data.labels.tolist()) == (names, numbers)


def test_another_split_takes_the_classes_of_the_first(write_file: Write) -> None:
    train = read_labelled(write_file("train.csv", "text,label\na,x\nb,y\nc,z\n"))
    path = write_file("dev.csv", "text,label\nd,z\ne,x\n")
    assert read_labelled(path).labels.tolist() == [1, 0]
    dev = read_labelled(path, label_names=train.label_names, split="dev")
    assert (dev.labels.tolist(), dev.class_counts) == ([2, 0], {"x": 1, "y": 0, "z": 1})
    late = write_file("late.csv", "text,label\nd,z\ne,w\n")
    with pytest.raises(
        InputError, match=r"late\.csv:3: column 'label': 'w' is not a label of late; its labels are x"
    ):
        read_labelled(late, label_names=train.label_names)


PROBE = ["tr\tPRES\tShe sings .", "tr\tPAST\tHe\u2028ran .", "va\tPAST\tThey slept .", "te\tPRES\tWe go ."]


def test_a_probing_task(tmp_path: Path, write_file: Write) -> None:
    with pytest.raises(InputError, match=r"the probing file .*facebookresearch/SentEval"):
        read_probe("past_present.txt", data_dir=tmp_path)
    path = write_file("probing/past_present.txt", "\n".join(PROBE))
    parts = read_probe("past_present.txt", data_dir=tmp_path, check_rows=False)
    texts = {"train": ["She sings .", "He\u2028ran ."], "dev": ["They slept ."], "test": ["We go ."]}
    assert {split: part.texts for split, part in parts.items()} == texts
    assert [part.labels.tolist() for part in parts.values()] == [[1, 0], [0], [1]]
    assert (parts["test"].label_names, parts["test"].source) == (("PAST", "PRES"), str(path))
    with pytest.raises(InputError, match="train has 2 rows instead of 100,000"):
        read_probe("past_present.txt", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*PROBE, "dev\tPAST\tNo ."], "line 5: expected tr, va or te"),
        ([*PROBE, "te\tFUTURE\tNo ."], "line 5: 'FUTURE' is not a label of the training rows"),
    ],
)
def test_broken_probes_are_named(lines: list[str], message: str, tmp_path: Path, write_file: Write) -> None:
    write_file("probing/past_present.txt", "\n".join(lines))
    with pytest.raises(InputError, match=message):
        read_probe("past_present.txt", data_dir=tmp_path, check_rows=False)
