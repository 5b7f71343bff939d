from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.training.learning_curves import read_learning_curves

MEASURES = ("alignment", "uniformity")


def make_run(folder: Path, entries: list[dict[str, float]], *, end: str = "", dev: str = "dev.tsv") -> Path:
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "config.toml").write_text(f'dev = "{dev}"\ndata_dir = "none"\n')
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (folder / "run" / "metrics.jsonl").write_text(lines + end)
    return folder


def entry(step: int, alignment: float, uniformity: float) -> dict[str, float]:
    return {"step": step, "eval_dev_alignment": alignment, "eval_dev_uniformity": uniformity}


def test_evaluated_steps_in_order_the_last_of_a_step_and_whole_lines_only(tmp_path: Path) -> None:
    entries = [entry(0, 0.1, -0.5), {"step": 1, "contrast": 3.0}, entry(2, 0.2, -1), entry(2, 0.3, -2)]
    # A diverged encoder has no geometry.
    entries.append({"step": 4, "eval_dev_spearman_cosine": 0.0})
    trace = read_learning_curves(
        make_run(tmp_path / "run-1", entries, end='{"step": 6, "eval_dev_al'), MEASURES
    )
    assert trace is not None
    assert (trace.dev, trace.steps) == ("dev", (0, 2))
    assert trace.values == {"alignment": (0.1, 0.3), "uniformity": (-0.5, -2.0)}


def test_no_run_no_trace(tmp_path: Path) -> None:
    assert read_learning_curves(tmp_path, MEASURES) is None
    assert read_learning_curves(tmp_path / "absent", MEASURES) is None


def test_a_run_that_measured_nothing_and_a_broken_line_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"metrics\.jsonl does not contain a step with alignment and uniformity"
    ):
        read_learning_curves(make_run(tmp_path / "a", [{"step": 1, "contrast": 3.0}], dev="none"), MEASURES)
    broken = make_run(tmp_path / "b", [entry(0, 1, -1)])
    path = broken / "run" / "metrics.jsonl"
    path.write_text("{\n" + path.read_text())
    with pytest.raises(InputError, match=r"metrics\.jsonl:1 is not valid JSON"):
        read_learning_curves(broken, MEASURES)
