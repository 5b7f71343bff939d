"""A study trains each row and seed once, and its tables say what the records say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.multitask import ROWS, MultiTaskConfig, fit_multitask, multitask_tables, rows_of_tables, run_rows
from sentemb.multitask.evaluation import METRICS, OVERALL, score_tasks
from sentemb.multitask.paper import PAPER_TABLES
from sentemb.multitask.records import RowRecord, read_row, read_rows, write_row
from sentemb.multitask.tasks import TASKS
from tests.multitask.toy import toy_config, toy_sets

TRAIN, DEV = toy_sets(), toy_sets(16, seed=1, split="dev")


def configs(base: Path, runs: Path, *, seeds: tuple[int, ...] = (1, 2)) -> list[MultiTaskConfig]:
    return [
        toy_config(row, base, runs / row / f"seed-{seed}", seeds=[seed], max_steps=2)
        for seed in seeds
        for row in ("table2-none", "table3-shared-heads")
    ]


def test_what_has_a_record_is_not_trained_again(small_bert: Path, tmp_path: Path) -> None:
    said: list[str] = []
    folder, runs = tmp_path / "records", tmp_path / "runs"
    first = run_rows(configs(small_bert, runs, seeds=(1,)), TRAIN, DEV, folder=folder, say=said.append)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = run_rows(configs(small_bert, runs, seeds=(1,)), TRAIN, DEV, folder=folder, say=said.append)
    assert said[0].startswith("2 runs, 0 of them finished")
    assert said[-1].startswith("2 runs, 2 of them finished")
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert [record.scores for record in again] == [record.scores for record in first]
    assert not list(runs.rglob("*.safetensors"))  # a finished run's folder has served
    for record in first:
        assert record.scores == pytest.approx(score_tasks(record.predictions, DEV))
        assert np.array_equal(record.gold["similarity"], DEV.similarity.labels)


@pytest.mark.slow
def test_processes_give_the_same_records(small_bert: Path, tmp_path: Path) -> None:
    rows = configs(small_bert, tmp_path / "runs", seeds=(1,))
    here = run_rows(rows, TRAIN, DEV, folder=tmp_path / "here")
    there = run_rows(rows, TRAIN, DEV, folder=tmp_path / "there", jobs=2)
    assert [record.scores for record in there] == [record.scores for record in here]


def test_another_setting_is_another_record(small_bert: Path, tmp_path: Path) -> None:
    config = toy_config("table2-none", small_bert, tmp_path / "run", max_steps=1)
    for one in (config, config.replace(learning_rate=1e-3)):
        run_rows([one], TRAIN, DEV, folder=tmp_path / "records")
    records = read_rows(tmp_path / "records")
    assert len(records) == 2
    with pytest.raises(InputError, match="two records of table2-none with seed 1"):
        multitask_tables(records, [2])


def test_a_finished_run_without_a_record_is_taken(small_bert: Path, tmp_path: Path) -> None:
    config = toy_config("table2-none", small_bert, tmp_path / "run", max_steps=1)
    fit_multitask(config, TRAIN, DEV)
    trained = json.loads((tmp_path / "run" / "run" / "record.json").read_text())
    (record,) = run_rows([config], TRAIN, DEV, folder=tmp_path / "records")
    assert record.seconds == trained["seconds"]  # of the steps that were taken then


def test_a_damaged_record_is_named(small_bert: Path, tmp_path: Path) -> None:
    config = toy_config("table2-none", small_bert, tmp_path / "run", max_steps=1)
    run_rows([config], TRAIN, DEV, folder=tmp_path / "records")
    (path,) = (tmp_path / "records").glob("*.json")
    values = json.loads(path.read_text())
    del values["scores"]["overall"]
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=rf"{path.name}, field scores: there is no overall"):
        read_row(path)


def test_rows_that_tables_share_are_named_once() -> None:
    assert rows_of_tables([3, 6]) == [
        "table3-all-different",
        "table3-shared-heads",
        "table2-none",
        "table6-epoch-round-robin",
        "table6-batch-round-robin",
    ]
    with pytest.raises(InputError, match="no table 11"):
        rows_of_tables([1, 11])


def test_the_paper_s_tables_name_rows_that_there_are() -> None:
    named = {run for table in PAPER_TABLES.values() for row in table.rows for run in row.runs}
    assert named == set(ROWS)


def test_the_paper_s_overall_scores_are_the_means_of_its_tasks() -> None:
    for table in PAPER_TABLES.values():
        for row in table.rows:
            overall, *tasks = row.figures
            if overall is not None:
                assert overall == pytest.approx(np.mean(tasks), abs=0.0021), row.label


def record(row: str, seed: int, **tasks: float) -> RowRecord:
    scores = {METRICS[task]: tasks[task] for task in TASKS}
    scores[OVERALL] = float(np.mean(list(scores.values())))
    answers = {task: np.zeros(2) for task in TASKS}
    sizes = {split: dict.fromkeys(TASKS, 2) for split in ("train", "dev")}
    return RowRecord(
        row=row, seed=seed, scores=scores, best=scores, predictions=answers, gold=answers,
        settings={"base": "bert-mini", "epochs": 10}, sizes=sizes, checksums={}, steps=1, kept_step=1,
        seconds=1.0, versions={}, hardware={}, date="2026-01-01",
    )  # fmt: skip


def test_a_table_has_mean_deviation_paper_and_order() -> None:
    records = [
        record("table2-none", 1, sentiment=0.5, paraphrase=0.6, similarity=0.1),
        record("table2-none", 2, sentiment=0.4, paraphrase=0.6, similarity=0.2),
        record("table2-given", 1, sentiment=0.3, paraphrase=0.7, similarity=0.6),
        record("table2-single-sentiment", 1, sentiment=0.45, paraphrase=0.0, similarity=0.0),
        record("table2-single-paraphrase", 1, sentiment=0.0, paraphrase=0.8, similarity=0.0),
        record("table2-single-similarity", 1, sentiment=0.0, paraphrase=0.0, similarity=0.7),
    ]
    (table,) = multitask_tables(records, [2])
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["None"][:5] == ("2", "40.0 ± 0.0", "54.0", "45.0 ± 7.1", "49.0")
    assert rows["None"][5:] == ("60.0 ± 0.0", "72.6", "15.0 ± 7.1", "40.4")
    assert rows["NLI"][:3] == ("–", "–", "66.1")
    assert rows["3 Given (Single Task)"] == ("1", "–", "–", "45.0", "50.2", "80.0", "83.6", "70.0", "64.2")
    # The best of each task: 0.5, 0.8 and 0.7 with seed 1.
    assert rows["Ensemble"][3].startswith("45.0 ±")
    order = next(note for note in table.notes if note.startswith("similarity"))
    assert "not 3 Given over 3 Given (Single Task) (-10.0)" in order
    assert "otherwise than the paper: base bert-mini" in table.notes


def test_a_record_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "row.json"
    written = record("table2-none", 1, sentiment=0.5, paraphrase=0.6, similarity=0.1)
    write_row(written, path)
    read = read_row(path)
    for name in ("row", "seed", "scores", "best", "settings", "sizes", "steps", "seconds", "date"):
        assert getattr(read, name) == getattr(written, name)
    with pytest.raises(InputError, match="no such folder"):
        read_rows(tmp_path / "nowhere")
