"""Rows of several tasks are trained once for each seed, and make the tables of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.record import load_predictions
from sentemb.evaluation.schema import Record
from sentemb.experiments import Experiment, load_experiment, run_experiment, write_tables

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
