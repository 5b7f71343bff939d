from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.catalogue import entries, get
from sentemb.data.fetch import count
from sentemb.data.labelled import LabelledTexts, load_labelled, load_unlabelled
from sentemb.data.locate import find, local_files
from sentemb.data.sources import read_rows
from sentemb.errors import InputError

# Set, split, rows of each class, first text, second text of the first pair, first label.
REAL = [
    ("cola", "train", [2528, 6023], "Our friends won't buy this analysis, let alone", None, "acceptable"),
    ("cola", "dev", [322, 721], "The sailors rode the breeze clear of the rocks.", None, "acceptable"),
    ("sst2", "dev", [428, 444], "it 's a charming and often affecting journey . ", None, "positive"),
    ("mrpc", "train", [1194, 2474], "Amrozi accused", 'Referring to him as only "the', "equivalent"),
    ("mrpc", "dev", [129, 279], "He said the foodservice", '"The foodservice pie business', "equivalent"),
    ("qnli", "dev", [2702, 2761], "What came into force after", "As of that day, the new", "entailment"),
    ("rte", "train", [1249, 1241], "No Weapons of Mass", "Weapons of Mass", "not_entailment"),
    ("rte", "dev", [146, 131], "Dana Reeve, the widow", "Christopher Reeve had", "not_entailment"),
    ("wnli", "dev", [40, 31], "The drain is clogged", "The hair has to be", "not_entailment"),
    ("advglue-sst2", "dev", [72, 76], "it 's an uneven treat", None, "positive"),
    ("advglue-mnli-mm", "dev", [60, 45, 57], "The simplest is for", "The simplest is for", "entailment"),
    ("mrpc-msr", "train", [1323, 2753], "Amrozi accused", 'Referring to him as only "the', "equivalent"),
    ("mrpc-msr", "test", [578, 1147], "PCCW's chief operating", "Current Chief", "equivalent"),
    ("trec", "train", [86, 1162, 1250, 1223, 835, 896], "How did serfdom develop in", None, "DESC"),
    ("trec", "test", [9, 138, 94, 65, 81, 113], "How far is it from Denver to Aspen ?", None, "NUM"),
    ("sst5", "train", [1092, 2218, 1624, 2322, 1288], "a stirring , funny", None, "very positive"),
    ("sst2-senteval", "test", [912, 909], "uneasy mishmash of styles", None, "negative"),
    ("sst2-sentences", "train", [3310, 3610], "a stirring , funny", None, "positive"),
    ("mr", "train", [5331, 5331], "the rock is destined to be", None, "positive"),
    ("cr", "train", [1368, 2407], "im a more happier person", None, "positive"),
    ("mpqa", "train", [7294, 3312], "are also being encouraged", None, "positive"),
    ("subj", "train", [5000, 5000], "the movie begins in the past", None, "objective"),
    ("cs224n-sst", "train", [1092, 2218, 1624, 2322, 1288], " The Rock is destined", None, "positive"),
    ("cs224n-cfimdb", "dev", [123, 122], " There 's something awful", None, "negative"),
    ("cs224n-quora", "dev", [12627, 7585], "What can you get as a", "What are some ways", "not_duplicate"),
    ("tnews-few", "train-0", [16] * 15, "为何农民工每天", None, "news_entertainment"),
    ("tnews-few", "test", [134] * 15, "农村依然很重视土葬", None, "news_story"),
    ("eprstmt", "train", [76, 84], "物流很快", None, "Negative"),
    ("eprstmt", "test", [305, 305], "呵呵了", None, "Negative"),
    ("bustm", "dev-4", [19, 13], "狗怎么叫", "我问你会不会狗叫", "different"),
    ("ocnli-few", "dev", [49, 51, 60], "村里还有一个土地庙", "村里只有一个土地庙", "contradiction"),
    ("ocnli", "dev", [947, 1103, 900], "身上裹一件工厂发的棉大衣", "身上至少一件衣服", "entailment"),
    ("ocnli", "train-3k", [974, 1054, 966], "现在,我代表国务院", "全国政协委员", "contradiction"),
    ("afqmc", "dev", [2978, 1338], "双十一花呗提额在哪", "里可以提花呗额度", "different"),
    ("fewglue-boolq", "train", [14, 18], "is ghost in the shell", "Ghost in the Shell --", "false"),
    ("fewglue-cb", "train", [19, 3, 10], "Nevertheless, her heart", "something was amiss", "entailment"),
    ("agnews", "test", [1900] * 4, "Fears for T N pension after talks Unions", None, "Business"),
    ("yelp-sample", "test", [518, 482], "this is a great little place", None, "positive"),
]


@pytest.mark.parametrize(("name", "split", "counts", "first", "second", "label"), REAL)
def test_real_sets(
    shared_data: Path, name: str, split: str, counts: list[int], first: str, second: str | None, label: str
) -> None:
    data = load_labelled(name, split=split, data_dir=shared_data)
    assert list(data.class_counts.values()) == counts
    assert data.texts[0].startswith(first)
    assert (data.pairs is None) == (second is None)
    if data.pairs is not None and second is not None:
        assert data.pairs[0].startswith(second)
    assert data.label_names[data.labels[0]] == label
    assert (data.labels.dtype, data.name, data.split) == (np.int64, name, split)


@pytest.mark.parametrize("entry", entries("labelled"), ids=lambda entry: entry.name)
def test_every_copy_beside_the_project_is_complete(shared_data: Path, entry) -> None:
    if find(entry, shared_data) is None:
        pytest.skip(f"{entry.name} is not among the real data")
    if sum(entry.rows.values()) > 12_000:
        pytest.skip("seconds of reading; its small splits are checked above")
    counts = count(entry, shared_data)
    assert counts and [counted.problem for counted in counts] == [None] * len(counts)
    assert all(counted.rows == entry.rows[counted.split] for counted in counts)
    assert local_files(entry, shared_data)


@pytest.mark.parametrize(("name", "rows", "mean"), [("stsb-glue", 1500, 2.3639), ("cs224n-sts", 863, 2.7231)])
def test_scores_are_no_classes(shared_data: Path, name: str, rows: int, mean: float) -> None:
    data = load_labelled(name, split="dev", data_dir=shared_data)
    assert (len(data), data.labels.dtype, data.label_names, data.class_counts) == (rows, np.float64, (), {})
    assert data.labels.mean() == pytest.approx(mean, abs=1e-4)
    assert (data.labels.min(), data.labels.max()) == (0, 5)


def test_quirks_of_published_texts_stay(shared_data: Path) -> None:
    products = load_labelled("cr", split="train", data_dir=shared_data)
    assert sum(not text.strip() for text in products.texts) == 4
    trec = load_labelled("trec", split="train", data_dir=shared_data)
    assert any("sisterðcity" in text for text in trec.texts)  # one Latin-1 byte
    mrpc = load_labelled("mrpc", split="train", data_dir=shared_data)
    assert mrpc.pairs is not None
    assert sum(text.count('"') for text in mrpc.texts + mrpc.pairs) == sum(
        line.count('"') for line in (shared_data / "glue/MRPC/train.tsv").read_text().splitlines()
    )


def test_the_layouts_of_mrpc_hold_the_same_pairs(shared_data: Path) -> None:
    """GLUE's train and dev are the published training split, its test the published one without labels."""
    published = load_labelled("mrpc-msr", split="train", data_dir=shared_data)
    parts = [load_labelled("mrpc", split=split, data_dir=shared_data) for split in ("train", "dev")]
    assert sum(map(len, parts)) == len(published)
    ours = {(text, pair) for part in parts for text, pair in zip(part.texts, part.pairs or [], strict=True)}
    theirs = set(zip(published.texts, published.pairs or [], strict=True))
    assert len(ours & theirs) > 0.99 * len(theirs)  # a few pairs differ in spacing


def test_unlabelled_splits(shared_data: Path) -> None:
    with pytest.raises(InputError, match=r"labels of rte test are not published; use one of train, dev, or"):
        load_labelled("rte", split="test", data_dir=shared_data)
    texts = load_unlabelled("rte", split="test", data_dir=shared_data)
    assert (len(texts), len(texts.pairs or [])) == (3000, 3000)
    acceptability = load_unlabelled("cola", split="test", data_dir=shared_data)
    assert (len(acceptability), acceptability.texts[0]) == (1063, "Bill whistled past the house.")
    assert acceptability.pairs is None
    assert len(load_unlabelled("eprstmt", split="unlabelled", data_dir=shared_data)) == 19565
    with pytest.raises(InputError, match="rte dev has labels; read it with load_labelled"):
        load_unlabelled("rte", split="dev", data_dir=shared_data)


def test_training_rows_are_records_too(shared_data: Path) -> None:
    record = next(read_rows("rte", data_dir=shared_data))
    assert list(record.values) == ["sentence1", "sentence2", "label"]
    assert record.number("label") == 1


MNLI_HEADER = "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label\n"
BROKEN = [
    ("glue/RTE/dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n", "dev.tsv, line 2: 3 fields, but"),
    (
        "glue/RTE/dev.tsv",
        "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n",
        "dev.tsv:2: 'maybe' is not a lab",
    ),
    (
        "glue/RTE/dev.tsv",
        "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t\n",
        "dev.tsv:2: the label is missing; remove",
    ),
    (
        "glue/RTE/dev.tsv",
        "index\tsentence1\tsentence2\n0\ta\tb\n",
        "does not have a column 'label'; its columns are index",
    ),
    (
        "glue/RTE/dev.tsv",
        'index\tsentence1\tsentence2\tlabel\n0\t"a\tb\t0\n',
        "has 1 rows instead of 277: 276 missing",
    ),
    ("glue/CoLA/dev.tsv", "gj04\t1\t\n", "dev.tsv, line 1: 3 fields, but the header has 4"),
    ("glue/CoLA/dev.tsv", "gj04\t2\t\tA text.\n", "dev.tsv:1: '2' is not a label of cola; its labels"),
    (
        "glue/STS-B/dev.tsv",
        "sentence1\tsentence2\tscore\na\tb\tnan\n",
        "expected a number in column 'label', but found 'nan'",
    ),
    ("glue/MNLI/dev_matched.tsv", MNLI_HEADER + "0\t1\ta\tb\tneutral\t-\n", "'-' is not a label of mnli"),
    ("senteval/downstream/TREC/TREC_10.label", "NUM:dist\n", "line 1: expected a label, a space and a text"),
    ("senteval/downstream/TREC/TREC_10.label", "MUN:dist How far ?\n", "'MUN' is not a label of trec"),
    (
        "clue/FewCLUE/tnews/dev_0.json",
        '{"sentence": "a", "label": 111}\n',
        "'111' is not a label of tnews-few",
    ),
    ("clue/FewCLUE/tnews/dev_0.json", '{"sentence": "a"}\n', "line 1 does not have a column 'label'"),
    ("glue/AdvGLUE/dev_ann.json", '{"sst2": [', "dev_ann.json: not valid JSON"),
    ("glue/AdvGLUE/dev_ann.json", '{"sst3": []}', "dev_ann.json does not contain a list 'sst2'"),
    ("ag_news_csv/test.csv", '"1","a\n', "test.csv, line 1: unexpected end of data"),
    ("ag_news_csv/test.csv", '"0","a","b"\n', "'0' is not a label of agnews"),
]


@pytest.mark.parametrize(("file", "content", "fragment"), BROKEN)
def test_broken_files_are_named(
    tmp_path: Path, write_file: Callable[[str, str], Path], file: str, content: str, fragment: str
) -> None:
    folder = file.split("/")[-2]
    names = {"RTE": "rte", "CoLA": "cola", "STS-B": "stsb-glue", "MNLI": "mnli", "TREC": "trec"}
    names |= {"tnews": "tnews-few", "AdvGLUE": "advglue-sst2", "ag_news_csv": "agnews"}
    split = {"TREC": "test", "tnews": "dev-0", "ag_news_csv": "test"}.get(folder, "dev")
    write_file(file, content)
    with pytest.raises(InputError) as caught:
        load_labelled(names[folder], split=split, data_dir=tmp_path)
    assert fragment in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_texts_that_are_broken_over_two_lines_are_left_out_of_qqp(
    tmp_path: Path, write_file: Callable[[str, str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    broken = '1\t2\t3\tWho was he? "\n"\tWho was he?\t0\n'
    write_file("glue/QQP/dev.tsv", header + broken + "4\t5\t6\tWhy so?\tWhy?\t1\n")
    data = load_labelled("qqp", split="dev", data_dir=tmp_path, check_rows=False)
    assert (data.texts, data.pairs, data.labels.tolist()) == (["Why so?"], ["Why?"], [1])
    assert "skipped 2 lines with fewer fields" in caplog.text
    write_file("glue/QQP/dev.tsv", header + "4\t5\t6\tWhy\tso?\tWhy?\t1\n")
    with pytest.raises(InputError, match=r"line 2: 7 fields, but the header has 6"):
        load_labelled("qqp", split="dev", data_dir=tmp_path, check_rows=False)


def test_counts_that_differ_are_errors_unless_allowed(tmp_path: Path, shared_data: Path) -> None:
    (tmp_path / "RTE").mkdir()
    lines = (shared_data / "glue/RTE/dev.tsv").read_text(encoding="utf-8").split("\n")
    (tmp_path / "RTE/dev.tsv").write_text("\n".join(lines[:-4]) + "\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"rte dev \(.*RTE\) has 274 rows instead of 277: 3 missing; get a complete"
    ):
        load_labelled("rte", split="dev", data_dir=tmp_path)
    assert len(load_labelled("rte", split="dev", data_dir=tmp_path, check_rows=False)) == 274
    counted = count(get("rte"), tmp_path)
    assert [(one.split, one.rows) for one in counted] == [("dev", 274)]
    assert "274 rows instead of 277" in str(counted[0].problem)


@pytest.mark.parametrize(
    ("name", "split", "fragment"),
    [
        ("qnli", "train", "QNLI/train.tsv; get a copy of qnli that contains its train split"),
        ("sst3", "dev", "unknown data set 'sst3'; did you mean 'sst"),
        ("sts12", "test", "sts12 does not contain labelled texts; choose for example one of cola, sst2"),
        ("trec", "dev", "trec does not have a split 'dev'; choose one of train, test"),
        (
            "qqp",
            "dev",
            "does not contain qqp (searched for glue/QQP, QQP, qqp); download it with `sentemb data fetch "
            "qqp",
        ),
        (
            "tnews",
            "dev",
            "does not contain tnews (searched for clue/tnews, tnews, tnews_public); choose another folder",
        ),
    ],
)
def test_what_is_not_there(shared_data: Path, name: str, split: str, fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        load_labelled(name, split=split, data_dir=shared_data)
    assert fragment in str(caught.value)


def test_what_is_on_no_hub_needs_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    with pytest.raises(
        InputError, match="trec is not on the hub; name the folder that contains it with --data-dir"
    ):
        load_labelled("trec", split="test")


def test_mnli_and_the_formats_of_dbpedia(tmp_path: Path, write_file: Callable[[str, str], Path]) -> None:
    rows = [f'0\t1\t"a\tb{number}\tneutral\tcontradiction' for number in range(3)]
    write_file("MNLI/dev_mismatched.tsv", MNLI_HEADER + "\n".join(rows) + "\n")
    data = load_labelled("mnli-mm", split="dev", data_dir=tmp_path, check_rows=False)
    assert (data.texts[0], (data.pairs or [])[2], data.labels.tolist()) == ('"a', "b2", [2, 2, 2])
    write_file(
        "dbpedia_csv/test.csv", '1,"TY KU"," TY KU /taɪkuː/ is an ""American"" company."\n14,"B","C"\n'
    )
    data = load_labelled("dbpedia", split="test", data_dir=tmp_path, check_rows=False)
    assert data.texts == [' TY KU /taɪkuː/ is an "American" company.', "C"]
    assert data.labels.tolist() == [0, 13]


def test_glues_other_headers(tmp_path: Path, write_file: Callable[[str, str], Path]) -> None:
    """QQP's ids, and the test splits' index column."""
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    write_file("QQP/dev.tsv", header + '7\t8\t9\tIs "a" b?\tIs b a?\t1\n')
    data = load_labelled("qqp", split="dev", data_dir=tmp_path, check_rows=False)
    assert (data.texts, data.pairs, data.labels.tolist()) == (['Is "a" b?'], ["Is b a?"], [1])
    write_file("QQP/test.tsv", "id\tquestion1\tquestion2\n0\ta\tb\n")
    assert load_unlabelled("qqp", split="test", data_dir=tmp_path, check_rows=False).pairs == ["b"]
    write_file("SST-2/test.tsv", "index\tsentence\n0\tuneasy mishmash .\n")
    texts = load_unlabelled("sst2", split="test", data_dir=tmp_path, check_rows=False)
    assert texts.texts == ["uneasy mishmash ."]
    with pytest.raises(InputError, match="has 1 rows instead of 1,821: 1,820 missing"):
        load_unlabelled("sst2", split="test", data_dir=tmp_path)


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
        (None, [0], ("n", "p"), "labels of shape (1,)"),
        (None, [0, 2], ("n", "p"), "the label of row 1 is 2"),
        (None, [-1, 0], ("n", "p"), "the label of row 0 is -1"),
        (None, [0.5, float("nan")], (), "the label of row 1 is nan"),
    ],
)
def test_labels_that_do_not_fit(
    pairs: list[str] | None, labels: list[float], names: tuple[str, ...], fragment: str
) -> None:
    with pytest.raises(InputError) as caught:
        LabelledTexts("x", "test", ["a", "b"], pairs, np.array(labels), names)
    assert fragment in str(caught.value)


def test_json_lines_may_hold_their_labels_as_numbers(
    tmp_path: Path, write_file: Callable[[str, str], Path]
) -> None:
    lines = [json.dumps({"sentence": f"s{code}", "label": code}) for code in (100, 101, 116)]
    write_file("tnews/dev.json", "\n".join(lines))
    data = load_labelled("tnews", split="dev", data_dir=tmp_path, check_rows=False)
    assert data.labels.tolist() == [0, 1, 14]
