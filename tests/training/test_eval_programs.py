"""The programs under eval/ that train: two steps of SG-BERT's ablations, domain shift and efficiency."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentemb.evaluation.records import read_records
from sentemb.evaluation.suites import MULTILINGUAL

PROGRAMS = Path(__file__).resolve().parents[2] / "eval"
RunProgram = Callable[..., str]


@pytest.fixture
def run_program(
    tiny_bert: Path,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> RunProgram:
    def run(name: str, *arguments: Any) -> str:
        common = ["--base", tiny_bert, "--data-dir", shared_data, "--output", tmp_path / "out"]
        monkeypatch.setattr(sys, "argv", [name, *map(str, [*common, *arguments])])
        runpy.run_path(str(PROGRAMS / name), run_name="__main__")
        return capsys.readouterr().out

    return run


TOY = ("--sets", "stsb", "--dev", "none", "--max-steps", "2")


def test_ablations_leave_records_and_go_on(
    run_program: RunProgram,
    tiny_bert: Path,
    sentences_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    toy = (*TOY, "--data", sentences_file, "--rows", "sg-opt-tau-0.1,sg-opt-no-head")
    out = run_program("ablations.py", *toy, "--seeds", "1")
    assert [
        line
        for line in out.splitlines()
        if line.startswith(f"| {tiny_bert.name}-sg-opt-no-head | 1 |") and "72.78" in line
    ]
    assert {record.model for record in read_records(tmp_path / "out")} == {
        f"{tiny_bert.name}-sg-opt-tau-0.1-seed-1",
        f"{tiny_bert.name}-sg-opt-no-head-seed-1",
    }
    again = run_program("ablations.py", *toy, "--seeds", "1,2")
    assert "-sg-opt-tau-0.1 | 2 |" in again and "±" in again
    with pytest.raises(SystemExit) as caught:
        run_program("ablations.py", *TOY, "--rows", "sg-opt-tau-0.1", "--seeds", "1")
    assert caught.value.code == 2
    assert "other values of data" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run_program("ablations.py", *TOY, "--rows", "sg-op")
    assert "did you mean sg-opt" in capsys.readouterr().err.lower()


def test_a_setting_is_for_all_rows_but_for_what_a_row_is_about(
    run_program: RunProgram,
    tiny_bert: Path,
    sentences_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    toy = (*TOY, "--data", sentences_file, "--rows", "sg,sg-opt-tau-0.1", "--seeds", "1", "--max-steps", "1")
    given = ("--set", "learning_rate=1e-4", "--set", "loss_options.temperature=0.5")
    run_program("ablations.py", *toy, *given)
    sg, tau = (
        json.loads((tmp_path / "out" / "settings" / f"{tiny_bert.name}-{name}.json").read_text())
        for name in ("sg", "sg-opt-tau-0.1")
    )
    assert sg["learning_rate"] == tau["learning_rate"] == 1e-4
    assert (sg["loss_options"]["temperature"], tau["loss_options"]["temperature"]) == (0.5, 0.1)
    with pytest.raises(SystemExit) as caught:
        run_program("ablations.py", *toy, "--set", "learning_rat=1e-4")
    assert caught.value.code == 2
    assert "learning_rate" in capsys.readouterr().err


def test_domain_shift_trains_both_methods_on_the_same_pairs(
    run_program: RunProgram, write_file: Callable[[str, str], Path], tmp_path: Path
) -> None:
    words = "cat dog man woman birds children house park mat guitar".split()
    rows = "".join(f"the {a} sat\ta {b} ran\tneutral\n" for a in words for b in words)
    nli = write_file("nli.tsv", f"premise\thypothesis\tlabel\n{rows}")
    out = run_program(
        "domain_shift.py", *TOY, "--nli", nli, "--columns", "premise,hypothesis", "--pairs", 40,
        "--rows", "sg-opt-nli,flow-nli", "--seeds", 1,
    )  # fmt: skip
    assert "| flow-nli | 1 |" in out and "STS-B 59.19, average 64.58" in out
    lines = (tmp_path / "out" / "nli-sentences.jsonl").read_text().splitlines()
    assert len(lines) == 80
    assert json.loads(lines[0])["text"].endswith("sat")


def test_what_is_lost_is_the_difference_of_means() -> None:
    program = runpy.run_path(str(PROGRAMS / "domain_shift.py"))

    class Judged:
        def __init__(self, model: str, spearman: float) -> None:
            self.model, self.spearman = model, spearman

        def scores(self, protocol: str) -> dict[str, Judged]:
            return {"stsb": self}

        def average(self, protocol: str) -> None:
            return None

    records = [Judged("flow-stsb-seed-1", 70), Judged("flow-stsb-seed-2", 72), Judged("flow-nli-seed-1", 60)]
    assert program["losses"](records) == ["flow loses 11.00 on NLI, stsb (the paper: 12.16)"]


def test_efficiency_measures_every_round_of_every_method(run_program: RunProgram, tmp_path: Path) -> None:
    out = run_program("efficiency.py", "--methods", "mean,wk,flow,sg-opt", "--sentences", 32, "--rounds", 1)
    record = json.loads((tmp_path / "out" / "efficiency.json").read_text())
    assert (record["sentences"], record["pairs"]) == (32, 1379)
    assert record["hardware"]["threads"] >= 1
    counts = {name: (len(one["training"]), len(one["inference"])) for name, one in record["seconds"].items()}
    assert counts == {"mean": (0, 1), "wk": (0, 1), "flow": (1, 1), "sg-opt": (1, 1)}
    assert (tmp_path / "out" / "efficiency.md").read_text() in out


def test_frozen_rows_share_a_pass_and_are_not_judged_again(
    run_program: RunProgram, sentences_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = ("--sets", "stsb", "--data", sentences_file)
    out = run_program("frozen.py", *toy, "--rows", "mean,whitening,flow", "--seeds", "1,2")
    flow, mean, whitening = (line.split(" | ") for line in sorted(out.splitlines()) if "bert" in line)
    assert (flow[1], mean[1], whitening[1]) == ("2", "–", "–") and "±" in flow[2]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")}
    assert len(before) == 4
    assert "-max | – |" in run_program("frozen.py", *toy, "--rows", "max,mean")
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")}
    assert len(after) == 5 and before.items() <= after.items()
    with pytest.raises(SystemExit) as caught:
        run_program("frozen.py", *toy, "--rows", "mena")
    assert caught.value.code == 2 and "did you mean mean" in capsys.readouterr().err.lower()


def test_zero_shot_judges_in_other_languages_and_goes_on(
    run_program: RunProgram, sentences_file: Path, tmp_path: Path
) -> None:
    toy = ("--dev", "none", "--max-steps", 2, "--data", sentences_file, "--rows", "sg-opt")
    sets = ("--sets", "sts17-es-es,sts17-en-en")
    out = run_program("zero_shot.py", *toy, *sets, "--seeds", "1")
    assert "Pearson x 100" in out and "Spearman x 100" in out
    assert "| sg-opt | 1 |" in out and "Arabic 58.52" in out
    record = tmp_path / "out" / "sg-opt-seed-1.multilingual.wmean.seed-1.json"
    before = record.read_bytes()
    assert run_program("zero_shot.py", *toy, *sets, "--seeds", "1") == out
    assert record.read_bytes() == before


def test_models_are_judged_in_other_languages(
    tiny_bert: Path, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def run(*arguments: Any) -> str:
        monkeypatch.setattr(sys, "argv", ["multilingual_sts.py", *map(str, arguments)])
        runpy.run_path(str(PROGRAMS / "multilingual_sts.py"), run_name="__main__")
        return capsys.readouterr().out

    place = ("--data-dir", shared_data, "--output", tmp_path)
    judged = run(tiny_bert, "--pooling", "mean", "--sets", "sts17-en-en,stsb-de", *place)
    assert f"| {tiny_bert.name}-mean | – |" in judged and "| sts17-en-en | stsb-de |" in judged
    assert run(*place) == judged  # from the record
    (record,) = read_records(tmp_path, suite=MULTILINGUAL)
    assert [one.name for one in record.sets] == ["sts17-en-en", "stsb-de"]
