"""Transfer tasks from published and own files: rows, order, features, records, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.comparison import compare
from sentemb.evaluation.record import load_predictions, load_records, read_record, write_record
from sentemb.evaluation.runner import Options, load_suites, run_suites
from sentemb.evaluation.systems import system_of
from sentemb.evaluation.transfer import PRESETS, TASKS, evaluate_transfer, load_tasks
from sentemb.evaluation.transfer import evaluate as transfer
from sentemb.evaluation.transfer.evaluate import checksum_of_task, splits
from sentemb.evaluation.transfer.tasks import task_scores
from sentemb.report.results import tables_of, transfer_table
from tests.evaluation.conftest import letters


def counting(texts: list[str]) -> np.ndarray:
    """Vectors of which characters a text has: enough to classify questions."""
    vectors = np.zeros((len(texts), 40), dtype=np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.split():
            row[sum(map(ord, word)) % 40] += 1
    return vectors


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three folds and few epochs in place of any preset."""
    short = replace(PRESETS["simcse-fast"], folds=3, max_epochs=4, penalties=(1e-4, 1e-2))
    monkeypatch.setattr(transfer, "get_preset", lambda name: short)


def test_rows_are_in_the_order_that_senteval_folds(shared_data: Path) -> None:
    found = load_tasks(["cr", "trec", "mrpc", "sick-e", "sickr-trained"], data_dir=shared_data)
    for name, parts in found.items():
        for split in parts.values():
            lengths = [len(text.split()) for text in split.texts]
            second = [len(text.split()) for text in split.pairs or split.texts]
            keys = list(zip(lengths, second, split.labels.tolist(), strict=True))
            assert keys == sorted(keys), name
    # Rows that are equal in both keep their order.
    train = found["trec"]["train"]
    key = (len(train.texts[200].split()), train.labels[200])
    published, ours = (
        [text for text, label in zip(one.texts, one.labels, strict=True) if (len(text.split()), label) == key]
        for one in (load_labelled("trec", split="train", data_dir=shared_data), train)
    )
    assert ours == published and len(ours) > 5


def test_tasks_of_each_kind_have_records_that_come_back(
    shared_data: Path, quick: None, tmp_path: Path
) -> None:
    (record,) = evaluate_transfer(counting, ["cr", "trec"], data_dir=shared_data)
    assert (record.suite, record.protocol, record.seed) == ("transfer", "simcse", 1111)
    sets = [(one.name, one.split, one.items) for one in record.datasets]
    assert sets == [("cr", "train", 3775), ("trec", "test", 500)]
    assert {name: len(some) for name, some in record.details["penalties"].items()} == {"cr": 3, "trec": 1}
    predicted, gold = load_predictions(record)
    assert record.score("trec") == round(100 * float(np.mean(predicted["trec"] == gold["trec"])), 2)
    assert record.score("trec") > 100 * np.bincount(gold["trec"]).max() / 500 + 10
    assert record.score("cr") == pytest.approx(100 * np.mean(predicted["cr"] == gold["cr"]), abs=0.01)
    assert record.score("cr", protocol="dev") > 50
    assert record.average() is None
    path = write_record(record, predicted, gold, tmp_path)
    assert path.name == "counting.transfer.simcse.seed-1111.json"
    assert read_record(path).scores == record.scores


def test_a_regression_has_a_record_too(
    shared_data: Path, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "regression", partial(transfer.regression, longest=0))
    (record,) = evaluate_transfer(
        counting, ["mrpc", "sickr-trained"], preset="simcse-fast", data_dir=shared_data
    )
    assert [(one.dataset, one.metric) for one in record.scores if one.protocol == "all"] == [
        ("mrpc", "accuracy"),
        ("mrpc", "f1"),
        *(("sickr-trained", metric) for metric in ("pearson", "spearman", "mse")),
    ]
    assert record.score("sickr-trained", "pearson") > 30
    predicted, gold = load_predictions(record)
    back = read_record(write_record(record, predicted, gold, tmp_path))
    again = load_predictions(back).values["sickr-trained"]
    assert np.allclose(again, predicted["sickr-trained"], atol=1e-3)
    assert np.array_equal(np.argsort(again), np.argsort(predicted["sickr-trained"]))
    (table,) = (one for one in tables_of([record]) if "regression" in one.title)
    assert table.header[3:] == ("Pearson", "Spearman", "MSE ↓")


def test_scores_are_those_of_senteval() -> None:
    gold = np.repeat([0, 1], [15, 5])
    predictions = np.where(np.arange(20) % 7 == 0, 1 - gold, gold)
    wrong = predictions != gold
    assert task_scores(TASKS["trec"], gold, predictions, folds=5) == {"accuracy": 85.0}
    scores = task_scores(TASKS["mrpc"], gold, predictions, folds=5)
    hits = int(np.sum(predictions * gold))
    assert scores == {"accuracy": 85.0, "f1": round(200 * hits / (predictions.sum() + gold.sum()), 2)}
    assert task_scores(TASKS["mr"], gold, predictions, folds=5)["accuracy"] == 100 * np.mean(~wrong)


def test_a_mean_over_folds_of_different_sizes_is_kept_and_another_number_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    texts = [f"{'a b c'[: random.integers(1, 6)]} {row}" for row in range(33)]
    data = LabelledTexts("mr", "train", texts, None, random.integers(2, size=33), ("no", "yes"))
    suite = transfer.transfer_suite({"mr": {"train": data}}, "logreg", 1)
    ((record, _),) = suite.evaluate(load_encoder(counting), ["mr"])
    predicted, gold = load_predictions(record)
    assert abs(record.score("mr") - 100 * np.mean(predicted["mr"] == gold["mr"])) > 0.05
    path = write_record(record, predicted, gold, tmp_path)
    assert read_record(path).score("mr") == record.score("mr")
    other = record.scores[0].model_copy(update={"value": record.score("mr") + 0.02})
    with pytest.raises(InputError, match=r"scores\[0\].value: .* does not match the accuracy"):
        write_record(record.model_copy(update={"scores": (other,)}), predicted, gold, tmp_path / "other")


def test_a_pair_is_its_difference_and_its_product() -> None:
    data = LabelledTexts("pairs", "train", ["a"], ["b"], np.array([1]), ("no", "yes"))
    vectors = np.array([[1, 2], [3, -1]], dtype=np.float32)
    found = transfer.examples_of(data, vectors, {"a": 0, "b": 1})
    assert torch.equal(found.features, torch.tensor([[2.0, 3.0, 3.0, -2.0]]))


def test_a_probing_task_has_its_own_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "probing"
    folder.mkdir()
    words = ["red", "green", "blue", "cyan"]
    lines = [
        f"{split}\t{words[row % 4]}\tthe {words[row % 4]} thing number {row}"
        for split, rows in (("tr", 80), ("va", 40), ("te", 40))
        for row in range(rows)
    ]
    (folder / "word_content.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    seen = []
    monkeypatch.setattr(
        transfer, "splits", lambda *parts, **rest: seen.append(rest["preset"]) or splits(*parts, **rest)
    )
    (record,) = evaluate_transfer(
        counting, ["word-content"], preset="sg-bert", data_dir=tmp_path, check_rows=False
    )
    assert (record.datasets[0].items, record.score("word-content")) == (40, pytest.approx(100, abs=10))
    assert seen[0].hidden == 0  # SentEval gives this task no hidden layer


Write = Callable[[str, str], Path]
WORDS = {"animal": ("cat", "dog", "bird"), "colour": ("red", "blue", "green")}


def constant(texts: list[str]) -> np.ndarray:
    """Vectors that tell nothing."""
    return np.ones((len(texts), 4), dtype=np.float32)


def table(rows: int = 42) -> str:
    """As many rows of either class, the texts of which differ in their words."""
    random = np.random.default_rng(0)
    lines = [
        f"{' '.join(random.choice(words, random.integers(1, 4)))} {row},{label}"
        for row in range(rows // 2)
        for label, words in WORDS.items()
    ]
    return "\n".join(["text,label", *lines, ""])


def test_a_file_is_cross_validated_and_its_records_compare(write_file: Write, tmp_path: Path) -> None:
    path = write_file("mine.csv", table())
    loaded = load_suites(["transfer"], Options(tasks=[str(path)], preset="logreg"))
    for function in (letters, constant):
        run_suites(load_encoder(function), loaded, output=tmp_path / "records")
    weak, good = load_records(tmp_path / "records")
    (dataset,) = good.datasets
    assert (dataset.name, dataset.split, dataset.items) == ("mine", "all", 42)
    assert dataset.classes == ("animal", "colour")
    assert len(good.details["penalties"]["mine"]) == 10
    predicted, gold = load_predictions(good)
    assert good.score("mine") == pytest.approx(100 * np.mean(predicted["mine"] == gold["mine"]), abs=5)
    assert good.score("mine") > 90 > 60 > weak.score("mine")
    assert compare(system_of([weak], "constant"), system_of([good], "letters")).sets[0].interval[0] > 0
    assert transfer_table([weak, good], "logreg").header == ("model", "seeds", "mine")


def test_a_changed_text_is_other_data(write_file: Write) -> None:
    before, after = (
        checksum_of_task("mine", load_tasks([str(write_file("mine.csv", one))])["mine"])
        for one in (table(), table().replace(" 20,", " 21,"))
    )
    assert before != after


ROWS = table(28)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ROWS + "a cow,\n", "mine.csv:30: column 'label': the label is missing"),
        (ROWS.replace("label", "star"), "mine.csv does not have a column 'label'; its columns are text"),
        ("text,label\na,x\nb,x\n", "mine.csv: all rows have the class 'x'"),
        (ROWS + "a cow,beast\n", "class 'beast' has 1 rows, but 5-fold cross-validation needs 7"),
        (table(24)[:-1], "24 rows are too few for the validation split"),
        ("text,label\n", "mine.csv is empty"),
    ],
)
def test_bad_files_are_refused_before_anything_is_encoded(
    write_file: Write, content: str, message: str
) -> None:
    path = write_file("mine.csv", content)
    with pytest.raises(InputError) as error:
        load_suites(["transfer"], Options(tasks=[str(path)], preset="simcse-fast"))
    assert message in str(error.value)


def test_names_that_collide_are_refused(write_file: Write) -> None:
    trec, mine = write_file("trec.csv", ROWS), write_file("mine.csv", ROWS)
    with pytest.raises(InputError, match="has the same name as the task trec"):
        evaluate_transfer(letters, [str(trec)])
    for tasks, problem in (
        ([str(mine), str(write_file("other/mine.csv", ROWS))], "task mine is listed twice"),
        ("cr", "the list of tasks is empty"),
        (["stsb"], "unknown task 'stsb'"),
    ):
        with pytest.raises(InputError, match=problem):
            evaluate_transfer(letters, tasks)
