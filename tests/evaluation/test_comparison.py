"""Comparisons: no difference of equal systems, large ones of different systems, and levels that are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from scipy import stats

from sentemb.errors import InputError
from sentemb.evaluation.comparison import compare, compare_all, holm, p_of_differences, williams
from sentemb.evaluation.record import load_records
from sentemb.evaluation.schema import Record
from sentemb.evaluation.systems import SetRuns, System, resolve_system, system_of
from tests.records import data_set, make_record

RESULTS = Path(__file__).resolve().parents[2] / "eval" / "results"
GOLD = np.random.default_rng(3).normal(size=300)


def system(name: str, noise: float, *, seeds: tuple[int | None, ...] = (None,), sets: int = 1) -> System:
    generator = np.random.default_rng(crc32(name.encode()))
    runs = [
        SetRuns(GOLD, GOLD + noise * generator.normal(size=(len(seeds), 300)), "gold") for _ in range(sets)
    ]
    return System(name, "spearman", seeds, {f"set{place}": one for place, one in enumerate(runs)})


def correlations(one: System) -> list[float]:
    return [stats.spearmanr(run, GOLD).statistic for run in one.sets["set0"].predictions]


@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_a_system_against_itself(noise: float) -> None:
    one = system("a", noise, seeds=(1, 2, 3), sets=2)
    found = compare(one, replace(one, name="b"), draws=200)
    assert found.average is not None
    for line in (*found.sets, found.average):
        assert (line.size, line.interval, line.p, line.p_items) == (0.0, (0.0, 0.0), 1.0, 1.0)
        assert not line.real
    assert found.sentence().startswith("b and a do not differ significantly on the average: +0.00")


def test_a_large_difference_is_found_in_both_ways() -> None:
    good, bad = system("good", 0.3, seeds=(1, 2, 3), sets=2), system("bad", 2.0, seeds=(1, 2, 3), sets=2)
    there, back = compare(bad, good, draws=500), compare(good, bad, draws=500)
    assert there.average is not None and back.average is not None
    assert there.average.real and there.average.interval[0] > 0
    assert there.average.size == pytest.approx(-back.average.size)
    assert "good is better than bad by" in there.sentence() and "3 and 3 runs" in there.sentence()
    assert "bad is worse than good by" in back.sentence()
    (line,) = compare(system("one", 1.0), system("other", 1.2), draws=200, intervals=False).sets
    assert line.interval is None and line.p >= line.p_items


def test_runs_that_differ_more_than_the_systems_show_nothing() -> None:
    generator = np.random.default_rng(0)
    noise = np.array([0.2, 2.5, 0.2])[:, None]
    even = SetRuns(GOLD, GOLD + 1.5 * generator.normal(size=(3, 300)), "gold")
    uneven = SetRuns(GOLD, GOLD + noise * generator.normal(size=(3, 300)), "gold")
    first, second = (
        System(name, "spearman", seeds, {"set0": runs})
        for name, seeds, runs in (("even", (1, 2, 3), even), ("uneven", (4, 5, 6), uneven))
    )
    (line,) = compare(first, second, draws=500).sets
    assert line.p_items < 0.01
    assert line.p_seeds is not None and line.p_seeds > 0.05 and not line.real
    expected = stats.ttest_ind(correlations(first), correlations(second), equal_var=False).pvalue
    assert line.p_seeds == pytest.approx(expected)


def test_common_seeds_are_paired_whatever_their_order() -> None:
    one, other = system("one", 1.0, seeds=(1, 2, 3)), system("other", 1.1, seeds=(3, 1, 2))
    (line,) = compare(one, other, draws=100).sets
    third, first, second = correlations(other)
    expected = stats.ttest_rel([first, second, third], correlations(one)).pvalue
    assert line.p_seeds == pytest.approx(expected)


def transfer_record(model: str, classifier: int, share: float) -> Record:
    """An encoder whose classifier is right on about a share of 300 rows."""
    generator = np.random.default_rng((crc32(model.encode()), classifier))
    gold = (GOLD > 0).astype(np.int64)
    predictions = np.where(generator.random(300) < share, gold, 1 - gold)
    score = ("cr", "accuracy", 100 * float(np.mean(predictions == gold)))
    fields = {"protocol": "simcse", "seed": classifier}
    record = make_record("transfer", model, [data_set("cr", 300)], [score], **fields)
    return record.with_predictions({"cr": predictions}, {"cr": gold})


def test_classifiers_of_an_encoder_are_not_seeds_of_its_training() -> None:
    records = [
        transfer_record(f"a-seed-{seed}", classifier, 0.7 + seed / 100)
        for seed in (1, 2, 12)
        for classifier in (5, 6)
    ]
    records += [transfer_record("raw", classifier, 0.7) for classifier in (1, 2)]
    scores = [one.score("cr") for one in records]
    trained, raw = (system_of(records, name) for name in ("a", "raw"))
    found = compare(raw, trained, draws=100)
    (line,) = found.sets
    own = np.mean(np.reshape(scores[:6], (3, 2)), axis=1)
    assert found.runs == (2, 3)
    assert line.scores[1] == pytest.approx(np.mean(own))
    assert line.deviations[1] == pytest.approx(np.std(own, ddof=1))
    # Seeds 1 and 2 of the classifiers are not those of the trainings: nothing to pair.
    assert line.p_seeds == pytest.approx(stats.ttest_ind(scores[6:], own, equal_var=False).pvalue)
    with pytest.raises(InputError, match="different numbers of classifiers"):
        system_of(records[1:], "a")
    with pytest.raises(InputError, match="2 records of raw, preset simcse, seed 1"):
        system_of([*records, records[-2]], "raw")


def test_all_others_at_once_are_each_alone(tmp_path: Path) -> None:
    first = system("first", 1.0, seeds=(1, 2), sets=2)
    others = [
        system("one", 1.2, seeds=(1, 2), sets=2),
        system("single", 0.9),
        system("many", 1.1, seeds=(1, 2, 3)),
    ]
    seen: list[tuple[int, int]] = []
    found = compare_all(first, others, draws=200, cache=tmp_path, progress=lambda *step: seen.append(step))
    assert found == [compare(first, other, draws=200) for other in others]
    assert seen == [(1, 2), (2, 2)]
    renamed = [replace(other, name=f"the {other.name}") for other in others]
    again = compare_all(
        first, renamed, draws=200, cache=tmp_path, progress=lambda *_: pytest.fail("drawn again")
    )
    assert again == [replace(one, second=f"the {one.second}") for one in found]
    assert len(list(tmp_path.iterdir())) == 3
    assert compare_all(first, others, draws=300, cache=tmp_path) != found


def test_what_a_name_means() -> None:
    models = ("org/large", "bert-mini-seed-1", "bert-mini-seed-2", "words.txt")
    records = [transfer_record(model, 1, 0.7) for model in models]
    for name in ("bert-mini", "bert-mini-seed-2", "runs/bert-mini-seed-1/", records[1].fingerprint[:8]):
        assert resolve_system(name, records) == "bert-mini"
    for name in ("org/large", "large", "models/org__large", "org__large"):
        assert resolve_system(name, records) == "org/large"
    assert resolve_system(Path("/data/words.txt"), records) == "words.txt"
    with pytest.raises(InputError, match="no record of gpt found; choose among org/large, bert-mini, words"):
        resolve_system("gpt", records)
    twins = [transfer_record("one/large", 1, 0.7), *records]
    problem = "large is ambiguous: it matches one/large, org/large; use a full name"
    with pytest.raises(InputError, match=problem):
        resolve_system("large", twins)


def test_several_sets_are_corrected() -> None:
    found = compare(system("one", 1.0, sets=3), system("other", 1.15, sets=3), draws=500)
    assert all(line.p >= line.p_items for line in found.sets)
    assert any(line.p > line.p_items for line in found.sets)
    assert found.average is not None and found.average.p == found.average.p_items


def test_real_records_agree_with_their_scores() -> None:
    names = ("bert-mini-mean.sts", "simcse-bert-mini-seed")
    records = load_records([path for name in names for path in RESULTS.glob(f"{name}*.json")], suite="sts")
    found = compare(system_of(records, "bert-mini-mean"), system_of(records, "simcse-bert-mini"), draws=100)
    assert found.average is not None and found.runs == (1, 8)
    averages = [one.average() for one in records if one.model.startswith("simcse-bert-mini")]
    assert found.average.scores[1] == pytest.approx(np.mean([one for one in averages if one]))
    assert found.average.real and found.average.size > 5


def test_other_items_are_refused() -> None:
    one = system("one", 1.0)
    other = System("other", "spearman", (None,), {"set0": replace(one.sets["set0"], content="else")})
    for against, draws, problem in (
        (other, 100, "evaluated on different items of set0"),
        (replace(other, sets={"set9": one.sets["set0"]}), 100, "do not share a data set"),
        (one, 10**9, "more than 1,000,000 resamples"),
        (replace(other, measure="pearson"), 100, "one has spearman, other has pearson"),
    ):
        with pytest.raises(InputError, match=problem):
            compare(one, against, draws=draws)


def test_holm_and_differences_without_spread() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
    assert p_of_differences([0.5] * 4) == 0.125  # the signs count
    assert p_of_differences([0.0, 0.0]) == 1.0
    assert p_of_differences([0.3]) is None
    assert p_of_differences([1.0, 2.0, 3.0]) == pytest.approx(0.0742, abs=1e-4)


def test_williams_as_in_the_literature() -> None:
    # The example of R's package psych: t = -0.89 with 100 degrees of freedom.
    assert williams(0.4, 0.5, 0.1, 103) == pytest.approx(2 * stats.t.sf(0.89, 100), abs=0.003)
