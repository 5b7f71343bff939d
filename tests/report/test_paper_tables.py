"""The program of SG-BERT's tables finds the records of each, and says how to make those it lacks."""

from __future__ import annotations

import json
import runpy
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.sts import STS_SETS, ScoredPairs, Subset
from sentemb.evaluation import evaluate_pairs
from sentemb.evaluation.record import load_predictions, write_record
from sentemb.evaluation.suites import MULTILINGUAL, STS, Suite
from tests.records import data_set, make_record

EVAL = Path(__file__).resolve().parents[2] / "eval"
TEXTS = [f"{'a' * (1 + 3 * i % 7)} {'b' * (i % 5)} {'cd' * (i % 4)}" for i in range(40)]
Run = Callable[..., str]


def write_scores(folder: Path, name: str, *, power: float, suite: Suite = STS) -> None:
    gold, subset = np.linspace(0, 5, 20), Subset("part", 0, 20)
    names = STS_SETS if suite is STS else suite.sets
    pairs = [ScoredPairs(one, "test", TEXTS[:20], TEXTS[20:], gold, (subset,)) for one in names]
    record = evaluate_pairs(
        lambda texts: np.array([[len(t) ** power, t.count("b"), t.count("c"), 1.0] for t in texts]),
        pairs,
        suite=suite,
        seed=int(name[-1]) if "seed" in name else None,
    )
    write_record(record.model_copy(update={"model": name}), *load_predictions(record), folder)


def write_labels(folder: Path, **models: tuple[str, str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f'["{name}"]\nbase = "{base}"\nmethod = "{method}"\npooling = "{pooling}"\n'
        for name, (base, method, pooling) in models.items()
    ]
    (folder / "labels.toml").write_text("".join(lines))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program on `tmp_path`."""
    monkeypatch.syspath_prepend(str(EVAL))

    def made(folder: Path = tmp_path) -> str:
        monkeypatch.setattr(sys, "argv", ["paper_tables.py", str(folder), "--output", str(tmp_path / "out")])
        runpy.run_path(str(EVAL / "paper_tables.py"), run_name="__main__")
        return capsys.readouterr().out

    return made


def line_of(text: str, *beginning: str) -> list[str]:
    (found,) = [line for line in text.splitlines() if line.startswith(f"| {' | '.join(beginning)} |")]
    return [cell.strip(" *") for cell in found.strip("|").split("|")]


def test_ours_stand_before_the_papers_and_what_is_missing_is_named(tmp_path: Path, run: Run) -> None:
    write_labels(
        tmp_path,
        raw=("bert-mini", "raw", "cls"),
        mine=("bert-mini", "SG-OPT", "cls"),
        both=("bert-mini", "BT + SG-OPT", "cls"),
    )
    for name, power in {"raw": 0.2, "mine-seed-1": 0.5, "mine-seed-2": 1.0, "both": 1.5}.items():
        write_scores(tmp_path, name, power=power)
    text = run()
    first, seventh = text.partition("## Table 7")[::2]
    assert line_of(first, "bert-mini", "SG-OPT", "cls")[3] == "2"
    assert "±" in line_of(first, "bert-mini", "SG-OPT", "cls")[-1]
    assert line_of(first, "BERT-base in the paper", "SG-OPT", "cls")[-1] == "74.62 ± 0.25"
    assert "BT + SG-OPT" not in first and "SBERT-base" not in first
    missing = "raw (wk) from bert-mini is not measured yet; to measure it, run "
    assert f"{missing}python eval/frozen.py wk --base bert-mini" in first
    assert line_of(seventh, "BERT-base in the paper", "BT + SG-OPT", "cls")[-1] == "75.10 ± 0.15"
    latex = (tmp_path / "out" / "sg-bert-tables.tex").read_text()
    assert "\\multicolumn{11}{l}{\\textit{BERT-base in the paper}}" in latex
    assert (tmp_path / "out" / "sg-bert-tables.md").read_text().strip() == text.strip()


def test_every_table_of_which_there_is_no_record_is_named(tmp_path: Path, run: Run) -> None:
    text = run()
    assert text.count(": not measured yet; to measure it, run ") == 7
    for program in ("frozen", "zero_shot", "senteval", "ablations", "efficiency"):
        assert f"eval/{program}.py" in text
        assert (EVAL / f"{program}.py").is_file()


def test_the_other_tables_have_folders_of_their_own(tmp_path: Path, run: Run) -> None:
    write_labels(tmp_path / "zero-shot", mine=("bert-mini", "SG-OPT", "cls"))
    write_scores(tmp_path / "zero-shot", "mine", power=1.0, suite=MULTILINGUAL)
    write_scores(tmp_path, "bert-mini-sg-opt-seed-1", power=0.5)
    for name, power in {"bert-mini-sg-seed-1": 1.5, "other-sg-opt-tau-0.1-seed-1": 0.7}.items():
        write_scores(tmp_path / "ablations", name, power=power)
    ours = {"mine": ("bert-mini", "SG-OPT", "cls"), "bert-mini-sg-opt": ("bert-mini", "SG-OPT here", "cls")}
    write_labels(tmp_path, **ours)
    gold = np.arange(8)
    transfer = make_record(
        "transfer", "mine", [data_set("cr", 8)], [("cr", "accuracy", 87.5)], protocol="sg-bert", seed=1
    )
    write_record(transfer, {"cr": 1 - gold // 7}, {"cr": np.ones(8, dtype=int)}, tmp_path)
    (tmp_path / "efficiency").mkdir()
    seconds = {name: {"training": [], "inference": [2.0]} for name in ("mean", "wk")}
    record = {"base": "bert-mini", "sentences": 1000, "seconds": seconds}
    (tmp_path / "efficiency" / "efficiency.json").write_text(json.dumps(record))
    text = run()
    assert line_of(text, "bert-mini", "SG-OPT", "cls", "– x 1")[5] == "87.50"
    assert line_of(text, "BERT-base in the paper", "SG-OPT", "cls", "–")[5] == "87.42"
    assert line_of(text, "MBERT in the paper", "SG-OPT", "cls")[4:] == ["82.74", "58.52", "80.19", "78.03"]
    languages = line_of(text, "bert-mini", "SG-OPT", "cls", "–")
    assert languages[4] == "–" and float(languages[5])
    full, base = line_of(text, "bert-mini", "sg-opt"), line_of(text, "bert-mini", "sg")
    assert base[4] == f"{float(base[3]) - float(full[3]):+.2f}"
    assert base[5:] == ["72.17", "-2.45"] and full[4] == "–"
    assert line_of(text, "other", "sg-opt-tau-0.1")[4] == "–"
    assert line_of(text, "other", "sg-opt")[2:5] == ["–", "–", "–"]
    assert line_of(text, "wk")[-1] == "197.03"


def test_seconds_are_medians_with_ratios_next_to_the_paper() -> None:
    program = runpy.run_path(str(EVAL / "efficiency.py"))
    seconds = {"mean": ([], [2.0, 1.0, 9.0]), "wk": ([], [5.0, 3.0, 4.0]), "sg": ([8.0], [1.0])}
    times = {name: program["Times"](*own) for name, own in seconds.items()}
    table = program["efficiency_table"](times, title="t")
    assert table.rows == (
        ("mean", "–", "2.00", "1.00", "–", "13.94"),
        ("wk", "–", "4.00", "2.00", "–", "197.03"),
        ("sg", "8.00", "1.00", "0.50", "–", "–"),
    )
    assert "× mean" in table.header


def test_records_without_labels_and_damaged_ones_are_refused(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(folder: Path = tmp_path) -> str:
        with pytest.raises(SystemExit) as caught:
            run(folder)
        assert caught.value.code == 2
        return capsys.readouterr().err

    assert "no such folder" in refused(tmp_path / "none")
    (tmp_path / "efficiency").mkdir()
    (tmp_path / "efficiency" / "efficiency.json").write_text("[]")
    assert "not a record of eval/efficiency.py" in refused()
    write_scores(tmp_path, "mine", power=1.0)
    assert "the models do not have labels" in refused()


def test_the_papers_averages_are_those_of_its_scores() -> None:
    figures = tomllib.loads((EVAL / "sg_bert_published.toml").read_text(encoding="utf-8"))
    for part in ("sts", "senteval"):
        columns = figures[part].pop("columns")
        for base, rows in figures[part].items():
            for method, pooling, *scores in rows:
                assert len(scores) == len(columns)
                *each, average = (float(score.split()[0]) for score in scores)
                if (base, method) != ("BERT-large", "flow"):  # its average is another one in the paper
                    assert np.mean(each) == pytest.approx(average, abs=0.011), (base, method, pooling)
