"""Tables say what the records say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.schema import Record
from sentemb.experiments import Experiment, curves, experiment_tables, summarize, write_tables
from sentemb.experiments.runner import run_trials
from sentemb.experiments.summary import score_of
from sentemb.experiments.tables import average_table, class_table, comparison_table
from sentemb.experiments.verdicts import verdicts_of
from sentemb.report.table import Table
from tests.experiments.made import record, runs
from tests.experiments.toy import ToyTrials, toy_experiment

TOY = Experiment(
    name="toy", title="Toy", kind="classification", rows=("ce",), baseline="ce", seeds=(0, 1, 2, 3, 4)
)


def table(records: list[Record], *, best: int | None = None) -> Table:
    return experiment_tables(TOY.replace(best=best), records)[0]


def test_a_table_has_mean_spread_best_and_significance() -> None:
    made = table([*runs("lacon", 0.85), *runs("ce", 0.7), *runs("scl", 0.7, draw=1)])
    assert made.header == ("method", "toy accuracy")
    assert [row[0] for row in made.rows] == ["ce", "lacon", "scl"]
    scores = [100 * (score_of(run, "toy") or 0) for run in runs("lacon", 0.85)]
    assert made.rows[1][1] == f"{np.mean(scores):.1f} ± {np.std(scores, ddof=1):.1f} ↑"
    assert not made.rows[2][1].endswith(("↑", "↓"))
    assert made.best == {(1, 1)}
    assert made.notes[0] == "x 100, mean ± sample standard deviation over 5 seeds"
    assert "Holm" in made.notes[1] and made.notes[-1] == "toy: 10 train, 5 validation, 300 test rows"
    assert f"| **{made.rows[1][1]}** |" in made.markdown()
    assert table([*runs("worse", 0.5), *runs("ce", 0.7)]).rows[1][1].endswith(" ↓")


def test_single_seeds_have_neither_spread_nor_arrows() -> None:
    made = table([*runs("lacon", 0.85, seeds=1), *runs("ce", 0.7, seeds=1)])
    assert all("±" not in row[1] and "↑" not in row[1] for row in made.rows)
    assert not any("Holm" in note for note in made.notes)


def test_what_is_missing_or_not_comparable_is_said() -> None:
    other = runs("a", 0.9, content="other")
    rte = runs("ce", 0.7, data="rte")
    made = table([*runs("ce", 0.7), *rte, *other, *runs("late", 0.7, seeds=2)])
    assert made.rows[1][2] == "–"
    assert "a on toy at full: not compared with ce" in made.notes
    assert "late on toy at full: 2 seeds" in made.notes


def test_settings_are_rows_and_the_best_is_that_of_a_setting() -> None:
    few = [*runs("ce", 0.6, setting={"shots": 20}), *runs("scl", 0.65, setting={"shots": 20})]
    many = [*runs("ce", 0.9, setting={"shots": 100}), *runs("scl", 0.8, setting={"shots": 100})]
    made = table([*many, *few])
    assert made.header == ("method", "examples", "toy accuracy")
    assert [row[:2] for row in made.rows] == [("ce", "20"), ("scl", "20"), ("ce", "100"), ("scl", "100")]
    assert made.best == {(1, 2), (2, 2)}
    drawn = curves(summarize([*many, *few]))
    assert drawn["toy"]["scl"][0] == [20, 100]
    assert drawn["toy"]["scl"][1][1] == pytest.approx(80, abs=3)


def test_the_best_runs_are_chosen_by_validation_and_compared_over_all() -> None:
    gold = np.arange(10) % 2
    made = [
        record("ce", seed, gold, np.where(np.arange(10) < right, gold, 1 - gold), validation=score)
        for seed, (right, score) in enumerate([(9, 0.1), (6, 0.9), (7, 0.8), (8, 0.7), (5, 0.2)])
    ]
    (summary,) = summarize(made, best=3)
    assert (summary.mean, summary.deviation) == (pytest.approx(70), pytest.approx(10))
    assert len(summary.records) == 5
    assert table(made, best=3).notes[0].endswith("over the best 3 of 5 runs by validation")
    # Of an unfinished study there are fewer: all of them, and the table says how many.
    assert summarize(made, best=6)[0].mean == pytest.approx(70)


def test_variants_of_one_name_are_told_apart() -> None:
    warm = {"loss_options": {"temperature": 0.3}, "epochs": 3, "base": "bert", "start_fingerprint": "a" * 64}
    cold = {**warm, "loss_options": {"temperature": 0.1}}
    newer = {**cold, "start_fingerprint": "b" * 64}

    def made(*options: dict[str, object], data: str = "toy") -> list[Record]:
        return [run for one in options for run in runs("scl", 0.7, seeds=2, data=data, options=one)]

    assert [one.label for one in summarize(made(warm, cold))] == [
        "scl (loss_options.temperature=0.3)",
        "scl (loss_options.temperature=0.1)",
    ]
    assert [one.label for one in summarize(made(cold, newer))] == [
        "scl (start_fingerprint=aaaaaaaa)",
        "scl (start_fingerprint=bbbbbbbb)",
    ]
    # Another base for another set, or another name of the same base, is no variant.
    other = [*made(cold), *made(newer, data="rte"), *made({**newer, "base": "x"}, data="cola")]
    assert {one.label for one in summarize(other)} == {"scl"}
    with pytest.raises(InputError, match="have the same seed"):
        summarize([*runs("scl", 0.7), *runs("scl", 0.8)])


def test_minority_and_majority() -> None:
    gold = np.array([0, 0, 1, 1, 1, 1])
    made = class_table(summarize([record("ce", 0, gold, np.array([0, 1, 1, 1, 1, 1]))]))
    assert made.rows == (("ce", "toy", "full", f"{200 / 3:.1f}", f"{800 / 9:.1f}"),)
    # With as many rows of each class only the record knows which one is the minority.
    counts = {"class-0": 32, "class-1": 32}
    even = record("ce", 0, gold, np.array([0, 1, 1, 1, 1, 1]), counts=counts, minority="class-1")
    assert class_table(summarize([even])).rows[0][3:] == (f"{800 / 9:.1f}", f"{200 / 3:.1f}")


def test_the_average_leaves_the_unchanged_point_out() -> None:
    means = {0: 0.9, 0.3: 0.8, 0.9: 0.6}
    made = summarize(
        [run for value, mean in means.items() for run in runs("ce", mean, setting={"noise": value})]
    )
    scores = {one.setting.value: one.mean for one in made}
    (row,) = average_table(made).rows
    assert row == (
        "ce",
        "toy",
        *(f"{score:.1f}" for score in scores.values()),
        f"{(scores[0.3] + scores[0.9]) / 2:.1f}",
    )
    (row,) = average_table(made[:2]).rows
    assert row[-1] == f"{scores[0.3]:.1f}"


def test_the_notes_say_what_methods_share_and_what_they_do_not() -> None:
    shared = {"base": "bert", "epochs": 3, "batch_size": 4, "learning_rate": 2e-5}
    alone = {**shared, "epochs": 6, "probe_options": {"epochs": 5}}
    made = table(
        [
            run
            for name, options in (("ce", shared), ("supcl-seq", alone))
            for run in runs(name, 0.7, options=options, left_out={"repeated": 2, "in validation or test": 0})
        ]
    )
    assert "all methods: base bert, batch size 4, learning rate 2e-05" in made.notes
    assert "epochs: ce 3; supcl-seq 6" in made.notes
    assert any(note.startswith("supcl-seq: two stages") for note in made.notes)
    assert made.notes[-1] == (
        "toy: 10 train, 5 validation, 300 test rows; 9 to 18 steps; "
        "excluded from the training split: 2 repeated"
    )


def test_a_missing_baseline_is_said() -> None:
    made = table(runs("scl", 0.7))
    assert "toy at full: no comparison, because ce was not run" in made.notes


def test_every_comparison_has_its_p_values() -> None:
    summaries = summarize([*runs("ce", 0.7), *runs("a", 0.85), *runs("b", 0.7, draw=1)])
    verdicts = verdicts_of(summaries, "ce")
    made = comparison_table(summaries, verdicts, "ce")
    assert [row[0] for row in made.rows] == ["a", "b"]
    a = verdicts["a", "toy", summaries[1].setting]
    assert a.difference is not None and a.p is not None
    assert a.p == pytest.approx(2 * max(a.difference.p_items, a.difference.p_seeds or 0))


def test_an_experiment_from_trials_to_files(tmp_path: Path) -> None:
    experiment = toy_experiment(
        "ce",
        "blind",
        "smooth",
        name="imbalance",
        setting="rho",
        values=(1, 5),
        datasets=("rare",),
        tables=("classes",),
    )
    records = run_trials(ToyTrials(experiment), tmp_path)
    assert len(records) == 18 and [run.seed for run in records] == sorted(run.seed or 0 for run in records)
    text = write_tables(experiment, tmp_path).read_text()
    assert "| method | ρ | rare accuracy |" in text and "F1 x 100 of the minority" in text
    assert (tmp_path / "imbalance.tex").read_text().count(r"\begin{table}") == 3
    # Records of other experiments are skipped.
    run_trials(ToyTrials(toy_experiment(seeds=1)), tmp_path)
    assert write_tables(experiment, tmp_path).read_text() == text
    with pytest.raises(InputError, match="no record of the experiment noise"):
        write_tables(experiment.replace(name="noise"), tmp_path)
