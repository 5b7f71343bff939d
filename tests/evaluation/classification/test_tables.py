from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.classification import (
    CellRecord,
    Method,
    Point,
    Study,
    class_table,
    comparison_table,
    curves,
    judge,
    study_table,
    summarize,
)
from sentemb.evaluation.classification.protocols import (
    PROTOCOLS,
    experiments_of,
    full,
    imbalance,
    write_tables,
)
from sentemb.evaluation.classification.tables import average_table
from sentemb.evaluation.table import Table
from tests.evaluation.classification.test_significance import record, runs
from tests.evaluation.classification.toy import BLIND, CE, SMOOTH, describe, fit_predict, protocol_data


def table(records: list[CellRecord], *, best: int | None = None) -> Table:
    summaries = summarize(records, best=best)
    return study_table(summaries, judge(summaries, "ce"), baseline="ce", title="Toy", best=best)


def at(record: CellRecord, **changes: object) -> CellRecord:
    return dataclasses.replace(record, cell=dataclasses.replace(record.cell, **changes))


def test_a_table_has_mean_spread_best_and_significance() -> None:
    made = table([*runs("lacon", 0.85), *runs("ce", 0.7), *runs("scl", 0.7, draw=1)])
    assert made.header == ("method", "toy accuracy")
    assert [row[0] for row in made.rows] == ["ce", "lacon", "scl"]
    scores = [100 * run.score for run in runs("lacon", 0.85)]
    assert made.rows[1][1] == f"{np.mean(scores):.1f} ± {np.std(scores, ddof=1):.1f} ↑"
    assert not made.rows[2][1].endswith(("↑", "↓"))
    assert made.best == {(1, 1)}
    assert made.notes[0] == "x 100, mean ± sample standard deviation over 5 seeds"
    assert "Holm" in made.notes[1] and made.notes[-1] == "toy: 10 train, 5 validation, 300 test rows"
    assert f"| **{made.rows[1][1]}** |" in made.markdown()
    assert table([*runs("worse", 0.5), *runs("ce", 0.7)]).rows[1][1].endswith(" ↓")


def test_latex_escapes_and_prints_bold() -> None:
    made = Table(
        "Scores in % of a_b",
        ("method", "ρ"),
        (("a & b", "1.0 ± 0.1 ↑"), ("c", "–")),
        ("a note",),
        frozenset({(0, 1)}),
    )
    assert made.latex().splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{Scores in \% of a\_b}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"method & $\rho$ \\",
        r"\midrule",
        r"a \& b & \textbf{1.0$_{\pm 0.1}$ $\uparrow$} \\",
        r"c & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\footnotesize a note",
        r"\end{table}",
    ]


def test_single_seeds_have_neither_spread_nor_arrows() -> None:
    made = table([*runs("lacon", 0.85, seeds=1), *runs("ce", 0.7, seeds=1)])
    assert all("±" not in row[1] and "↑" not in row[1] for row in made.rows)
    assert not any("Holm" in note for note in made.notes)


def test_what_is_missing_or_not_comparable_is_said() -> None:
    other = [dataclasses.replace(run, checksums={**run.checksums, "test": "b"}) for run in runs("a", 0.9)]
    rte = [at(run, data="rte") for run in runs("ce", 0.7)]
    made = table([*runs("ce", 0.7), *rte, *other, *runs("late", 0.7, seeds=2)])
    assert made.rows[1][2] == "–"
    assert "a on toy at full: not compared with ce" in made.notes
    assert "late on toy at full: 2 seeds" in made.notes


def test_points_are_rows_and_the_best_is_that_of_a_point() -> None:
    few = [at(run, point=Point("shots", 20)) for run in [*runs("ce", 0.6), *runs("scl", 0.65)]]
    many = [at(run, point=Point("shots", 100)) for run in [*runs("ce", 0.9), *runs("scl", 0.8)]]
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
    assert summary.mean == pytest.approx(0.7) and summary.deviation == pytest.approx(0.1)
    assert len(summary.records) == 5
    assert table(made, best=3).notes[0].endswith("over the best 3 of 5 by validation")
    # Of an unfinished study there are fewer: all of them, and the table says how many.
    assert summarize(made, best=6)[0].mean == pytest.approx(0.7)


def test_variants_of_one_name_are_told_apart() -> None:
    warm = {"loss_options": {"temperature": 0.3}, "epochs": 3, "base": "bert", "start_fingerprint": "a" * 64}
    cold = {**warm, "loss_options": {"temperature": 0.1}}
    newer = {**cold, "start_fingerprint": "b" * 64}

    def made(*settings: dict[str, Any], data: str = "toy") -> list[CellRecord]:
        return [
            dataclasses.replace(at(run, data=data), settings=one)
            for one in settings
            for run in runs("scl", 0.7, seeds=2)
        ]

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
    with pytest.raises(InputError, match="two records of one seed"):
        summarize([*runs("scl", 0.7), *runs("scl", 0.8)])


def test_minority_and_majority() -> None:
    gold = np.array([0, 0, 1, 1, 1, 1])
    made = class_table(summarize([record("ce", 0, gold, np.array([0, 1, 1, 1, 1, 1]))]))
    assert made.rows == (("ce", "toy", "full", f"{200 / 3:.1f}", f"{800 / 9:.1f}"),)
    # With as many rows of each class only the record knows which one is the minority.
    even = dataclasses.replace(
        record("ce", 0, gold, np.array([0, 1, 1, 1, 1, 1])),
        class_counts={"class-0": 32, "class-1": 32},
        minority="class-1",
    )
    assert class_table(summarize([even])).rows[0][3:] == (f"{800 / 9:.1f}", f"{200 / 3:.1f}")


def test_the_average_leaves_the_unchanged_point_out() -> None:
    means = {0: 0.9, 0.3: 0.8, 0.9: 0.6}
    made = summarize(
        [at(run, point=Point("noise", value)) for value, mean in means.items() for run in runs("ce", mean)]
    )
    scores = {one.point.value: 100 * one.mean for one in made}
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
            dataclasses.replace(run, settings=settings, left_out={"repeated": 2, "in validation or test": 0})
            for name, settings in (("ce", shared), ("supcl-seq", alone))
            for run in runs(name, 0.7)
        ]
    )
    assert "all methods: base bert, batch size 4, learning rate 2e-05" in made.notes
    assert "epochs: ce 3; supcl-seq 6" in made.notes
    assert any(note.startswith("supcl-seq: in two stages") for note in made.notes)
    assert made.notes[-1] == (
        "toy: 10 train, 5 validation, 300 test rows; 9 to 18 steps; "
        "of the training split were left out 2 repeated"
    )


def test_a_missing_baseline_is_said() -> None:
    made = table(runs("scl", 0.7))
    assert "toy at full: nothing is compared, since ce was not run" in made.notes


def test_every_comparison_has_its_p_values() -> None:
    summaries = summarize([*runs("ce", 0.7), *runs("a", 0.85), *runs("b", 0.7, draw=1)])
    verdicts = judge(summaries, "ce")
    made = comparison_table(summaries, verdicts, "ce")
    assert [row[0] for row in made.rows] == ["a", "b"]
    a = verdicts["a", "toy", Point("full")]
    assert a.comparison is not None and a.comparison.p is not None and a.p is not None
    assert a.p == pytest.approx(2 * a.comparison.p)


def test_an_experiment_from_cells_to_files(tmp_path: Path) -> None:
    experiment = dataclasses.replace(imbalance((1, 5)), rule=None, seeds=(1, 2, 3))
    made = experiment.cells([CE, BLIND, SMOOTH], ["rare"])
    assert [cell.seed for cell in made] == sorted(cell.seed for cell in made) and len(made) == 18
    records = Study(tmp_path, fit_predict, describe, protocol_data(rule=experiment.rule)).run(made)
    text = write_tables(experiment, records, tmp_path).read_text()
    assert "| method | ρ | rare accuracy |" in text and "F1 x 100 of the minority" in text
    assert (tmp_path / "imbalance.tex").read_text().count(r"\begin{table}") == 3
    # Records of other experiments are passed over.
    others = [at(run, point=Point("shots", 20)) for run in records[:3]]
    assert write_tables(experiment, [*others, *records], tmp_path).read_text() == text
    assert experiments_of([*records, *others]) == ["few-shot", "imbalance"]


def test_experiments_refuse_what_they_cannot_report() -> None:
    few = PROTOCOLS["few-shot"]()
    assert few.best == 3 and few.seeds == tuple(range(10)) and few.rule == "scl"
    assert few.cells([CE], ["mrpc"])[0].metric == "accuracy"
    assert PROTOCOLS["full"]().cells([CE], ["mrpc"])[0].metric == "f1"
    lacon = PROTOCOLS["few-shot-per-class"]()
    assert lacon.cells([CE], ["rte"])[0].options["epochs"] == 20
    with pytest.raises(InputError, match="2 seeds have no best 3"):
        dataclasses.replace(few, seeds=(1, 2)).cells([CE], ["mrpc"])
    with pytest.raises(InputError, match="needs a method, a set, a seed and a point"):
        few.cells([], ["mrpc"])
    with pytest.raises(InputError, match="mine: the study decides metric; name the paper"):
        few.cells([Method("mine", "ce", {"metric": "f1"})], ["mrpc"])
    with pytest.raises(InputError, match="a base for rte, which is no set of the study"):
        dataclasses.replace(full(), bases={"rte": "bert"}).cells([CE], ["mrpc"])


def test_all_methods_share_base_and_optimization_unless_one_says_otherwise() -> None:
    own = Method("own", "scl", {"epochs": 3})
    experiment = dataclasses.replace(
        full(), options={"learning_rate": 1e-4}, bases={"eprstmt": str(Path.cwd() / "chinese")}
    )
    made = {
        (cell.method.name, cell.data): cell.options
        for cell in experiment.cells([CE, own], ["rte", "eprstmt"])
    }
    assert {one["learning_rate"] for one in made.values()} == {1e-4}
    assert {one["batch_size"] for one in made.values()} == {32}
    assert [made[name, "rte"]["epochs"] for name in ("ce", "own")] == [10, 3]
    assert {data: one["base"] for (_, data), one in made.items()} == {
        "rte": "bert-base-uncased",
        "eprstmt": "chinese",
    }
    scl = dataclasses.replace(full(), rule="scl").cells([CE], ["cola"])[0]
    assert scl.options["base"] == "roberta-large" and scl.metric == "accuracy"
