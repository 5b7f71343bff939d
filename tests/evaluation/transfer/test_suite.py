"""Transfer tasks from real files: rows, order, features, and what is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sentemb.data.labelled import LabelledTexts, load_labelled
from sentemb.errors import InputError
from sentemb.evaluation.transfer import PRESETS, TASKS, TRANSFER_TASKS, evaluate_transfer, load_tasks
from sentemb.evaluation.transfer import suite as transfer_suite
from sentemb.evaluation.transfer.protocols import splits


def counting(texts: list[str]) -> np.ndarray:
    """Vectors of which characters a text has: enough to tell questions apart."""
    vectors = np.zeros((len(texts), 40), dtype=np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.split():
            row[sum(map(ord, word)) % 40] += 1
    return vectors


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three folds and few epochs in place of any preset."""
    short = replace(PRESETS["simcse-fast"], folds=3, max_epochs=4, penalties=(1e-4, 1e-2))
    monkeypatch.setattr(transfer_suite, "preset_of", lambda name: short)


def test_rows_are_in_the_order_that_senteval_folds(shared_data: Path) -> None:
    for name, parts in load_tasks(["cr", "trec", "mrpc", "sick-e"], data_dir=shared_data).items():
        for split in parts.values():
            lengths = [len(text.split()) for text in split.texts]
            second = [len(text.split()) for text in split.pairs or split.texts]
            keys = list(zip(lengths, second, split.labels.tolist(), strict=True))
            assert keys == sorted(keys), name


def test_rows_that_are_equal_in_both_keep_their_order(shared_data: Path) -> None:
    train = load_tasks(["trec"], data_dir=shared_data)["trec"]["train"]
    published = load_labelled("trec", split="train", data_dir=shared_data)
    key = (len(train.texts[200].split()), train.labels[200])
    alike = [
        text
        for text, label in zip(published.texts, published.labels, strict=True)
        if (len(text.split()), label) == key
    ]
    sorted_alike = [
        text
        for text, label in zip(train.texts, train.labels, strict=True)
        if (len(text.split()), label) == key
    ]
    assert sorted_alike == alike
    assert len(alike) > 5


def test_tasks_of_each_kind_are_judged(shared_data: Path, quick: None) -> None:
    said: list[str] = []
    (report,) = evaluate_transfer(counting, ["cr", "trec"], data_dir=shared_data, say=said.append)
    reviews, questions = report.results
    assert (len(reviews.predictions), len(questions.predictions)) == (3775, 500)
    assert len(reviews.penalties) == 3  # one for each outer fold
    assert len(questions.penalties) == 1
    assert questions.accuracy == round(100 * float(np.mean(questions.predictions == questions.gold)), 2)
    majority = 100 * np.bincount(questions.gold).max() / 500
    assert questions.accuracy > majority + 10
    assert (reviews.f1, report.average, report.preset) == (None, None, "simcse")
    assert [line.split(":")[0] for line in said] == ["counting cr seed 1111", "counting trec seed 1111"]


def test_a_pair_is_its_difference_and_its_product() -> None:
    data = LabelledTexts("pairs", "train", ["a"], ["b"], np.array([1]), ("no", "yes"))
    vectors = transfer_suite._Vectors(np.array([[1, 2], [3, -1]], dtype=np.float32), {"a": 0, "b": 1})
    features = transfer_suite._examples(data, vectors).features
    assert torch.equal(features, torch.tensor([[2.0, 3.0, 3.0, -2.0]]))


def test_the_average_is_that_of_the_seven() -> None:
    assert set(TRANSFER_TASKS) < set(TASKS)
    assert len(TRANSFER_TASKS) == 7


@pytest.mark.parametrize(
    ("tasks", "preset", "message"),
    [
        ([], "simcse", "no list of tasks"),
        ("cr", "simcse", "no list of tasks"),
        (["cr", "cr"], "simcse", "task cr is named twice"),
        (["imdb"], "simcse", "no task 'imdb'"),
        (["cr"], "senteval", "no preset 'senteval'"),
    ],
)
def test_mistakes_are_named(tasks: list[str], preset: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_transfer(counting, tasks, preset=preset, data_dir=tmp_path)


def test_a_probing_task_is_judged_by_its_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        transfer_suite, "splits", lambda *parts, **rest: seen.append(parts[3]) or splits(*parts, **rest)
    )
    (report,) = evaluate_transfer(
        counting, ["word-content"], preset="sg-bert", data_dir=tmp_path, check_rows=False
    )
    (result,) = report.results
    assert (len(result.gold), result.accuracy) == (40, pytest.approx(100, abs=10))
    assert seen[0].hidden == 0  # SentEval gives this task no hidden layer
