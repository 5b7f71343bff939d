"""Rows of several tasks: trained once for each seed, and tables that say what the records say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.schema import Record, Score, Trial
from sentemb.experiments import Experiment, load_experiment, run_experiment, write_tables
from sentemb.experiments.multitask_tables import COLUMNS, multitask_tables
from tests.records import data_set, make_record

OPTIONS = {"max_steps": 1, "batch_size": 4, "max_length": 16, "epochs": 1}


@pytest.fixture
def experiment(small_bert: Path, shared_data: Path) -> Experiment:
    if not (shared_data / "cs224n").is_dir():
        pytest.skip(f"no cs224n in {shared_data}")
    return load_experiment("multitask").replace(
        rows=["table-6"],
        base=str(small_bert),
        seeds=[1],
        options=OPTIONS,
        data={"held_out": 0.2, "rows": 8, "dev_rows": 24},
    )


def test_rows_are_trained_once_and_make_the_papers_table(
    experiment: Experiment, shared_data: Path, tmp_path: Path
) -> None:
    said: list[str] = []

    def run(**changes: Any) -> list[Record]:
        chosen = experiment.replace(**changes)
        return run_experiment(chosen, tmp_path, data_dir=shared_data, announce=said.append)

    first = run()
    assert said[0].startswith("3 trials, 0 already finished") and "overall" in said[1]
    assert {one.model for one in first} == {
        "table2-none", "table6-epoch-round-robin", "table6-batch-round-robin"
    }  # fmt: skip
    found = load_predictions(first[0])
    accuracy = np.mean(found.values["sentiment"] == found.gold["sentiment"])
    assert first[0].score("sentiment", "accuracy") == pytest.approx(accuracy)
    assert not list((tmp_path / "models").rglob("*.safetensors"))  # a finished run's folder has served
    again = run()
    assert said[-1].startswith("3 trials, 3 already finished")
    assert [one.scores for one in again] == [one.scores for one in first]
    text = write_tables(experiment, tmp_path).read_text()
    assert "| Epoch Round Robin | 1 |" in text and "49.3" in text
    # Another setting is another record, and two of one row and seed make no table.
    run(rows=["table2-none"], options={**OPTIONS, "learning_rate": 1e-3})
    assert len(list(tmp_path.glob("table2-none.*.json"))) == 2
    with pytest.raises(InputError, match="two records of table2-none with seed 1"):
        write_tables(experiment, tmp_path)


def record(row: str, seed: int, **tasks: float) -> Record:
    scores = {**tasks, "overall": float(np.mean(list(tasks.values())))}
    metric = {"similarity": "pearson", "overall": "overall"}
    return make_record(
        "multitask",
        row,
        [data_set(task, 2, split="dev") for task in tasks],
        [
            Score(dataset=name, metric=metric.get(name, "accuracy"), protocol=protocol, value=scores[name])
            for protocol in ("all", "best")
            for name in COLUMNS
        ],
        protocol="dev",
        seed=seed,
        trial=Trial(experiment="multitask", method=row, options={"base": "bert-mini", "epochs": 10}),
        details={"sizes": {split: dict.fromkeys(tasks, 2) for split in ("train", "dev")}},
    )


def test_a_table_has_mean_deviation_paper_and_order() -> None:
    records = [
        record("table2-none", 1, sentiment=0.5, paraphrase=0.6, similarity=0.1),
        record("table2-none", 2, sentiment=0.4, paraphrase=0.6, similarity=0.2),
        record("table2-given", 1, sentiment=0.3, paraphrase=0.7, similarity=0.6),
        record("table2-single-sentiment", 1, sentiment=0.45, paraphrase=0.0, similarity=0.0),
        record("table2-single-paraphrase", 1, sentiment=0.0, paraphrase=0.8, similarity=0.0),
        record("table2-single-similarity", 1, sentiment=0.0, paraphrase=0.0, similarity=0.7),
    ]
    table = next(one for one in multitask_tables(records) if one.title.startswith("Table 2"))
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["None"][:5] == ("2", "40.0 ± 0.0", "54.0", "45.0 ± 7.1", "49.0")
    assert rows["None"][5:] == ("60.0 ± 0.0", "72.6", "15.0 ± 7.1", "40.4")
    assert rows["NLI"][:3] == ("–", "–", "66.1")
    assert rows["3 Given (Single Task)"] == ("1", "–", "–", "45.0", "50.2", "80.0", "83.6", "70.0", "64.2")
    # The best of each task: 0.5, 0.8 and 0.7 with seed 1.
    assert rows["Ensemble"][3].startswith("45.0 ±")
    order = next(note for note in table.notes if note.startswith("similarity"))
    assert "not 3 Given over 3 Given (Single Task) (-10.0)" in order
    assert "settings that differ from the paper: base bert-mini" in table.notes
