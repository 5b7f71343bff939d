"""Tables say what the records say, and a method is better only if other rows and other seeds would agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sentemb.errors import InputError
from sentemb.evaluation.record import load_predictions, load_records
from sentemb.evaluation.schema import Record
from sentemb.experiments import Experiment, experiment_tables, load_experiment, write_tables
from sentemb.experiments.runner import run_trials
from sentemb.experiments.tables import (
    Verdict,
    average_table,
    curves,
    score_of,
    summarize,
    verdicts_of,
)
from sentemb.report.table import Table
from tests.experiments.made import record, runs
from tests.experiments.toy import ToyTrials, toy_experiment

RESULTS = Path(__file__).resolve().parents[2] / "eval" / "results"
PUBLISHED = ["few-shot-per-class", "full", "imbalance"]
TOY = Experiment(
    name="toy", title="Toy", kind="classification", rows=("ce",), baseline="ce", seeds=(0, 1, 2, 3, 4)
)


def table(records: list[Record], *, best: int | None = None) -> Table:
    return experiment_tables(TOY.replace(best=best), records)[0]


def verdict(ours: list[Record], baseline: list[Record]) -> Verdict:
    (found,) = verdicts_of(summarize([*baseline, *ours]), "ce").values()
    return found


@pytest.mark.parametrize(
    "folder", ["ablations", "classification", "domain-shift", "multitask", "survival/tuned"]
)
def test_the_published_tables_follow_from_their_records(folder: str) -> None:
    records = load_records(RESULTS / folder)
    for name in PUBLISHED if folder == "classification" else [folder.split("/")[0]]:
        made = experiment_tables(load_experiment(name), records)
        for ending, texts in (
            (".md", [one.markdown() for one in made]),
            (".tex", [one.latex() for one in made]),
        ):
            published = (RESULTS / folder / f"{name}{ending}").read_text(encoding="utf-8")
            assert "\n".join(texts) == published, (
                f"sentemb experiment {name} --no-run -o eval/results/{folder}"
            )


def test_arrows_follow_from_the_tests_and_single_seeds_have_none() -> None:
    made = table([*runs("lacon", 0.85), *runs("ce", 0.7), *runs("worse", 0.5)])
    scores = [100 * (score_of(run, "toy") or 0) for run in runs("lacon", 0.85)]
    assert made.rows[1][1] == f"{np.mean(scores):.1f} ± {np.std(scores, ddof=1):.1f} ↑"
    assert [row[0] for row in made.rows] == ["ce", "lacon", "worse"] and made.rows[2][1].endswith(" ↓")
    single = table([*runs("lacon", 0.85, seeds=1), *runs("ce", 0.7, seeds=1)])
    assert all("±" not in row[1] and "↑" not in row[1] for row in single.rows)
    assert not any("Holm" in note for note in single.notes)


def test_each_baseline_has_a_table_that_ends_with_its_verdict() -> None:
    records = [*runs("ce", 0.7), *runs("lacon", 0.85), *runs("like ce", 0.7, draw=1), *runs("worse", 0.5)]
    *_, first, second = experiment_tables(TOY.replace(baseline="ce, worse"), records)
    assert first.title == "Differences from ce, x 100" and second.title == "Differences from worse, x 100"
    verdicts = "better: lacon; worse: worse; no significant difference: like ce"
    assert first.notes[-1] == f"verdict on toy, compared with ce: {verdicts}"
    assert second.notes[-1] == "verdict on toy, compared with worse: better: ce, lacon, like ce"
    assert [row[4].split()[-1] for row in second.rows] == ["↑", "↑", "↑"]
    # A single seed has no verdict.
    *_, single = experiment_tables(TOY, [*runs("ce", 0.7, seeds=1), *runs("lacon", 0.85, seeds=1)])
    assert single.title == first.title and not any("verdict" in note for note in single.notes)


def test_a_difference_beyond_the_scale_is_not_a_number_of_points() -> None:
    gold = np.arange(300) % 2
    lucky = [record("a", seed, gold, gold if seed else 1 - gold) for seed in range(2)]
    *_, made = experiment_tables(TOY, [*lucky, *runs("ce", 0.7, seeds=2)])
    assert made.rows[0][-2] == "over 100"


def test_encoders_are_compared_on_their_average() -> None:
    experiment = load_experiment("ablations").replace(baseline="sg-opt-no-head")
    *_, ranks, differences = experiment_tables(experiment, load_records(RESULTS / "ablations"))
    assert ranks.header == ("method", "average")
    assert {row[1] for row in differences.rows} == {"average"} and len(differences.rows) == 4


def test_what_is_missing_or_not_comparable_is_said() -> None:
    other = runs("a", 0.9, content="other")
    rte = runs("ce", 0.7, data="rte")
    made = table([*runs("ce", 0.7), *rte, *other, *runs("late", 0.7, seeds=2)])
    assert made.rows[1][2] == "–"
    assert "a on toy at full: not compared with ce" in made.notes
    assert "late on toy at full: 2 seeds" in made.notes
    assert "toy at full: no comparison, because ce was not run" in table(runs("scl", 0.7)).notes


def test_curves_have_the_values_in_order() -> None:
    many, few = (runs("ce", right, setting={"shots": shots}) for right, shots in ((0.9, 100), (0.6, 20)))
    values, means, deviations = curves(summarize([*many, *few]))["toy"]["ce"]
    assert values == [20, 100] and len(deviations) == 2
    assert means == pytest.approx([60, 90], abs=3)


def test_the_best_runs_are_chosen_by_validation_and_compared_over_all() -> None:
    gold = np.arange(10) % 2
    made = [
        record("ce", seed, gold, np.where(np.arange(10) < right, gold, 1 - gold), validation=score)
        for seed, (right, score) in enumerate([(9, 0.1), (6, 0.9), (7, 0.8), (8, 0.7), (5, 0.2)])
    ]
    (summary,) = summarize(made, best=3)
    assert summary.mean == pytest.approx(70) and np.std(summary.scores, ddof=1) == pytest.approx(0.1)
    assert len(summary.records) == 5
    assert table(made, best=3).notes[0].endswith("over the best 3 of 5 runs by validation")
    # Of an unfinished study there are fewer: all of them, and the table says how many.
    assert summarize(made, best=6)[0].mean == pytest.approx(70)


def test_variants_of_one_name_have_different_labels() -> None:
    warm = {"loss_options": {"temperature": 0.3}, "epochs": 3, "base": "bert", "start_fingerprint": "a" * 64}
    cold = {**warm, "loss_options": {"temperature": 0.1}}
    newer = {**cold, "start_fingerprint": "b" * 64}

    def labels(*options: dict[str, object]) -> list[str]:
        return [one.label for one in summarize(made(*options))]

    def made(*options: dict[str, object], data: str = "toy") -> list[Record]:
        return [run for one in options for run in runs("scl", 0.7, seeds=2, data=data, options=one)]

    temperatures = ("scl (loss_options.temperature=0.3)", "scl (loss_options.temperature=0.1)")
    assert labels(warm, cold) == [*temperatures]
    assert labels(cold, newer) == ["scl (start_fingerprint=aaaaaaaa)", "scl (start_fingerprint=bbbbbbbb)"]
    # Another base for another set, or another name of the same base, is not a variant.
    other = [*made(cold), *made(newer, data="rte"), *made({**newer, "base": "x"}, data="cola")]
    assert {one.label for one in summarize(other)} == {"scl"}
    with pytest.raises(InputError, match="have the same seed"):
        summarize([*runs("scl", 0.7), *runs("scl", 0.8)])


def test_the_average_leaves_the_unchanged_point_out() -> None:
    means = {0: 0.9, 0.3: 0.8, 0.9: 0.6}
    made = summarize(
        [run for value, mean in means.items() for run in runs("ce", mean, setting={"noise": value})]
    )
    scores = {one.setting.value: one.mean for one in made}
    cells = [*scores.values(), (scores[0.3] + scores[0.9]) / 2]
    (row,) = average_table(made).rows
    assert row == ("ce", "toy", *(f"{one:.1f}" for one in cells))
    (row,) = average_table(made[:2]).rows
    assert row[-1] == f"{scores[0.3]:.1f}"


def test_an_experiment_from_trials_to_files(tmp_path: Path) -> None:
    fields = {"setting": "rho", "values": (1, 5), "datasets": ("rare",), "tables": ("classes",)}
    experiment = toy_experiment("ce", "blind", "smooth", name="imbalance", **fields)
    records = run_trials(ToyTrials(experiment), tmp_path)
    assert len(records) == 18 and [run.seed for run in records] == sorted(run.seed or 0 for run in records)
    text = write_tables(experiment, tmp_path).read_text()
    assert "| method | ρ | rare accuracy |" in text and "F1 x 100 of the minority" in text
    # Records of other experiments are skipped.
    run_trials(ToyTrials(toy_experiment(seeds=1)), tmp_path)
    assert write_tables(experiment, tmp_path).read_text() == text
    with pytest.raises(InputError, match="no record of the experiment noise"):
        write_tables(experiment.replace(name="noise"), tmp_path)


def test_the_larger_p_value_decides() -> None:
    gold = np.zeros(1000, np.int64)
    gold[::2] = 1
    # One lucky seed of two: many rows say yes, the seeds do not.
    lucky = [record("a", 0, gold, gold), record("a", 1, gold, np.zeros_like(gold))]
    found = verdict(lucky, [record("ce", seed, gold, np.zeros_like(gold)) for seed in range(2)])
    assert found.difference is not None and found.difference.p_items < 0.01
    assert found.p == pytest.approx(stats.ttest_1samp([0.5, 0.0], 0).pvalue)
    # Four rows of difference that every seed agrees on: the rows do not suffice.
    few = np.where(np.arange(1000) < 4, 1 - gold, gold)
    ours, theirs = (
        [record(name, seed, gold, one) for seed in range(6)] for name, one in (("a", gold), ("ce", few))
    )
    agreeing = verdict(ours, theirs)
    assert agreeing.difference is not None and agreeing.difference.p_seeds == 2.0**-5
    assert agreeing.p == agreeing.difference.p_items > 0.1


def test_what_has_no_seed_is_compared_with_every_run_and_by_rows_alone_with_its_like() -> None:
    gold = np.arange(300) % 2
    worse, fixed = (
        [record(name, None, gold, np.where(np.arange(300) < right, gold, 1 - gold))]
        for name, right in (("ce", 150), ("fixed", 240))
    )
    trained = runs("lacon", 0.7)
    found = verdict(trained, worse)
    scores = [100 * (score_of(run, "toy") or 0) for run in trained]
    assert found.seeds == 5 and found.difference is not None
    assert found.difference.p_seeds == pytest.approx(stats.ttest_1samp(scores, 50).pvalue)
    alone = verdict(fixed, worse)
    assert alone.difference is not None and alone.p == alone.difference.p_items < 0.05
    made = experiment_tables(TOY, [*worse, *fixed, *trained])
    assert [row[3] for row in made[-1].rows] == ["–", "5"] and made[0].rows[0][1] == "50.0"
    assert {row[0] for row in made[1].rows} == {"ce", "fixed", "lacon"}


def test_what_cannot_be_compared_is_not() -> None:
    ours, theirs = runs("a", 0.8, seeds=1), runs("ce", 0.7, seeds=1)
    single = verdict(ours, theirs)
    assert single.p is None and single.difference is not None and single.difference.p_items < 0.05
    found = load_predictions(ours[0])
    other = [record("a", 0, found.gold["toy"], found.values["toy"], content="other")]
    assert verdict(other, theirs) == Verdict(None, 1, None)
    assert verdict(runs("a", 0.8, seeds=2)[1:], theirs) == Verdict(None, 0, None)
