"""Comparisons say what is there: nothing of nothing, and something of what is large."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copy2
from zlib import crc32

import numpy as np
import pytest
from scipy import stats

from sentemb.cli.main import run
from sentemb.errors import InputError
from sentemb.evaluation.comparison import Runs, compare, steiger, sts_runs, transfer_runs, williams
from sentemb.evaluation.comparison.runs import SetRuns
from sentemb.evaluation.comparison.table import comparison_table
from sentemb.evaluation.records import read_records
from sentemb.evaluation.transfer import TaskResult, TransferReport

RESULTS = Path(__file__).resolve().parents[3] / "eval" / "results"
ABLATIONS = str(RESULTS / "ablations")  # of STS alone
GOLD = np.random.default_rng(3).normal(size=300)


def system(name: str, noise: float, *, seeds: tuple[int | None, ...] = (None,), sets: int = 1) -> Runs:
    generator = np.random.default_rng(crc32(name.encode()))
    predictions = [GOLD + noise * generator.normal(size=(len(seeds), 300)) for _ in range(sets)]
    return Runs(
        name,
        "spearman",
        seeds,
        {f"set{place}": SetRuns(GOLD, one, "gold") for place, one in enumerate(predictions)},
    )


@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_a_system_against_itself(noise: float) -> None:
    one = system("a", noise, seeds=(1, 2, 3), sets=2)
    found = compare(one, replace(one, name="b"), draws=200)
    assert found.average is not None
    for line in (*found.sets, found.average):
        assert (line.size, line.interval, line.p, line.p_items, line.real) == (
            0.0,
            (0.0, 0.0),
            1.0,
            1.0,
            False,
        )
    assert found.sentence().startswith("b and a cannot be told apart on the average: +0.00")


def test_a_large_difference_is_found_in_both_ways() -> None:
    good, bad = system("good", 0.3, seeds=(1, 2, 3), sets=2), system("bad", 2.0, seeds=(1, 2, 3), sets=2)
    there, back = compare(bad, good, draws=500), compare(good, bad, draws=500)
    assert there.average is not None and back.average is not None
    assert there.average.real and there.average.interval[0] > 0
    assert there.average.size == pytest.approx(-back.average.size)
    assert "good is better than bad by" in there.sentence()
    assert "bad is worse than good by" in back.sentence()
    assert "3 and 3 runs" in there.sentence()


def test_seeds_have_their_say() -> None:
    """Runs that differ among themselves more than from the other system tell nothing."""
    generator = np.random.default_rng(0)
    noise = np.array([0.2, 2.5, 0.2])[:, None]
    uneven = SetRuns(GOLD, GOLD + noise * generator.normal(size=(3, 300)), "gold")
    even = SetRuns(GOLD, GOLD + 1.5 * generator.normal(size=(3, 300)), "gold")
    found = compare(
        Runs("even", "spearman", (1, 2, 3), {"one": even}),
        Runs("uneven", "spearman", (4, 5, 6), {"one": uneven}),
        draws=500,
    )
    (line,) = found.sets
    assert line.p_items < 0.01
    assert line.p_seeds is not None and line.p_seeds > 0.05
    assert not line.real
    expected = stats.ttest_ind(
        *([stats.spearmanr(one, GOLD).statistic for one in side.predictions] for side in (even, uneven)),
        equal_var=False,
    ).pvalue
    assert line.p_seeds == pytest.approx(expected)


def test_common_seeds_are_paired_whatever_their_order() -> None:
    one, other = system("one", 1.0, seeds=(1, 2, 3)), system("other", 1.1, seeds=(3, 1, 2))
    (line,) = compare(one, other, draws=100).sets
    scores = [
        [stats.spearmanr(run_, GOLD).statistic for run_ in side.sets["set0"].predictions]
        for side in (one, other)
    ]
    expected = stats.ttest_rel([scores[1][1], scores[1][2], scores[1][0]], scores[0]).pvalue
    assert line.p_seeds == pytest.approx(expected)


def judged(model: str, classifier: int, share: float) -> TransferReport:
    """An encoder whose classifier is right on about a share of 300 rows."""
    generator = np.random.default_rng((crc32(model.encode()), classifier))
    gold = (GOLD > 0).astype(np.int64)
    predictions = np.where(generator.random(300) < share, gold, 1 - gold)
    accuracy = 100 * float(np.mean(predictions == gold))
    result = TaskResult("cr", accuracy, accuracy, None, (1e-4,), gold, predictions, 0.1)
    return TransferReport(model, model, 3, {}, "simcse", classifier, (result,), 9, {"encode": 1.0})


def test_classifiers_of_an_encoder_are_no_seeds_of_its_training() -> None:
    reports = [
        *(
            judged(f"a-seed-{seed}", classifier, 0.7 + seed / 100)
            for seed in (1, 2, 12)
            for classifier in (5, 6)
        ),
        *(judged("raw", classifier, 0.7) for classifier in (1, 2)),
    ]
    accuracies = {(one.model, one.seed): one.results[0].accuracy for one in reports}
    trained, raw = (transfer_runs(reports, name, preset="simcse") for name in ("a", "raw"))
    found = compare(raw, trained, draws=100)
    (line,) = found.sets
    own = [
        np.mean([accuracies[f"a-seed-{seed}", classifier] for classifier in (5, 6)]) for seed in (1, 2, 12)
    ]
    assert found.runs == (2, 3)
    assert line.scores[1] == pytest.approx(np.mean(own))
    assert line.deviations[1] == pytest.approx(np.std(own, ddof=1))
    both = [accuracies["raw", classifier] for classifier in (1, 2)]
    # Seeds 1 and 2 of the classifiers are not those of the trainings: nothing to pair.
    assert line.p_seeds == pytest.approx(stats.ttest_ind(both, own, equal_var=False).pvalue)
    with pytest.raises(InputError, match="other numbers of classifiers"):
        transfer_runs(reports[1:], "a", preset="simcse")


def test_transfer_tasks_with_other_answers_do_not_compare() -> None:
    one, other = judged("one", 1, 0.7), judged("other", 1, 0.7)
    other = replace(other, results=(replace(other.results[0], gold=1 - other.results[0].gold),))
    first, second = (transfer_runs([each], each.model, preset="simcse") for each in (one, other))
    with pytest.raises(InputError, match="different items of cr"):
        compare(first, second, draws=100)


def test_several_sets_are_corrected() -> None:
    one, other = system("one", 1.0, sets=3), system("other", 1.15, sets=3)
    found = compare(one, other, draws=500)
    assert all(line.p >= line.p_items for line in found.sets)
    assert any(line.p > line.p_items for line in found.sets)
    assert found.average is not None and found.average.p == found.average.p_items


def test_williams_as_in_the_literature() -> None:
    # The example of R's package psych: t = -0.89 with 100 degrees of freedom.
    p = williams(0.4, 0.5, 0.1, 103)
    assert p == pytest.approx(2 * stats.t.sf(0.89, 100), abs=0.003)
    assert steiger(0.4, 0.5, 0.1, 103) == pytest.approx(p, abs=0.01)


@pytest.mark.parametrize("test", [williams, steiger])
def test_equal_correlations_are_told_apart_as_often_as_the_level_says(test) -> None:
    generator = np.random.default_rng(1)
    covariance = np.array([[1, 0.7, 0.5], [0.7, 1, 0.5], [0.5, 0.5, 1]])
    found = []
    for _ in range(400):
        table = np.corrcoef(generator.multivariate_normal(np.zeros(3), covariance, size=60).T)
        found.append(test(table[0, 2], table[1, 2], table[0, 1], 60))
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.03)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    covered = 0
    for trial in range(60):
        generator = np.random.default_rng(trial)
        gold = generator.normal(size=150)
        first, second = (gold + noise * generator.normal(size=150) for noise in (1.0, 1.5))
        truth = 100 * (6 / np.pi) * (np.arcsin(1 / np.sqrt(3.25) / 2) - np.arcsin(1 / np.sqrt(2) / 2))
        systems = [
            Runs(name, "spearman", (None,), {"one": SetRuns(gold, side[None], "gold")})
            for name, side in (("first", first), ("second", second))
        ]
        low, high = compare(*systems, draws=200, confidence=0.9).sets[0].interval
        covered += low <= truth <= high
    assert 48 <= covered <= 60  # 54 of 60 expected


def test_real_records_agree_with_their_table() -> None:
    records = [
        one for one in read_records(RESULTS) if one.model.startswith(("bert-mini", "simcse-bert-mini"))
    ]
    found = compare(sts_runs(records, "bert-mini-mean"), sts_runs(records, "simcse-bert-mini"), draws=100)
    assert found.average is not None and found.runs == (1, 8)
    averages = [one.average("all") for one in records if one.model.startswith("simcse")]
    assert found.average.scores[1] == pytest.approx(np.mean([one.spearman for one in averages if one]))
    assert found.average.real and found.average.size > 5
    table = comparison_table(found)
    assert [row[0] for row in table.rows] == [*found_names(found), "average"]
    assert "simcse-bert-mini is better than bert-mini-mean by" in table.markdown()


def found_names(found) -> list[str]:
    return [line.name for line in found.sets]


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(["compare", "bert-mini-cls", "bert-mini-mean", "-r", str(RESULTS), "--draws", "100"])
    assert not left.value.code
    printed = capsys.readouterr().out
    assert "**bert-mini-mean against bert-mini-cls, spearman x 100**" in printed
    assert "Williams" in printed


def test_records_may_lie_in_several_folders_but_each_in_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in RESULTS.glob("bert-mini-cls.sts.*"):
        copy2(path, tmp_path)
    arguments = ["compare", "bert-mini-cls", "bert-mini-mean", "-r", str(RESULTS), "-r", str(tmp_path)]
    with pytest.raises(SystemExit) as left:
        run([*arguments, "--draws", "100"])
    assert left.value.code == 2
    assert "2 records are of bert-mini-cls; name folders" in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    for path in RESULTS.glob("bert-mini-mean.sts.*"):
        copy2(path, other)
    with pytest.raises(SystemExit) as left:
        run([*arguments[:3], "-r", str(other), "-r", str(tmp_path), "--draws", "100"])
    assert not left.value.code
    assert "bert-mini-mean against bert-mini-cls" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bert-mini-cls"], "one system cannot be compared"),
        (["bert-mini-cls", "gpt"], "no record of gpt"),
        (["bert-mini-cls", "bert-mini-mean", "--draws", "9"], "9 draws say nothing"),
        (["bert-mini-cls", "bert-mini-mean", "--confidence", "95"], "confidence is 95"),
        (["bert-mini-cls", "gpt", "--suite", "transfer", "-r", ABLATIONS], "holds no transfer record"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        run(["compare", *arguments, "-r", str(RESULTS)])
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_other_items_are_refused() -> None:
    one = system("one", 1.0)
    other = Runs("other", "spearman", (None,), {"set0": replace(one.sets["set0"], content="else")})
    with pytest.raises(InputError, match="judged on different items of set0"):
        compare(one, other)
    with pytest.raises(InputError, match="share no set"):
        compare(one, replace(other, sets={"set9": one.sets["set0"]}))
    with pytest.raises(InputError, match="judged by spearman, other by pearson"):
        compare(one, replace(other, measure="pearson"))
