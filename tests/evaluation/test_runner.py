"""All suites from one encoding, recorded part by part, resumed after an interruption."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from sentemb.data.labelled import LabelledTexts
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation import runner
from sentemb.evaluation.geometry import geometry_suite
from sentemb.evaluation.record import load_predictions, read_record
from sentemb.evaluation.runner import Options, evaluate_all, load_suites, run_suites
from sentemb.evaluation.schema import Record
from sentemb.evaluation.sts import pair_suite
from sentemb.evaluation.suites import STS, Loaded
from sentemb.evaluation.transfer.evaluate import transfer_suite
from sentemb.evaluation.transfer.tasks import PRESETS, LogisticPreset
from tests.evaluation.conftest import Letters, make_pairs, sentences
from tests.evaluation.retrieval.conftest import make_set


def labelled(name: str, split: str, rows: int, seed: int) -> LabelledTexts:
    generator = np.random.default_rng(seed)
    texts = [f"{text} {('eat', 'fly')[row % 2]}" for row, text in enumerate(sentences(rows, seed))]
    noise = generator.permutation([0, 1] * (rows // 2))
    labels = np.where(generator.random(rows) < 0.7, [0, 1] * (rows // 2), noise)
    return LabelledTexts(name, split, texts, None, labels, ("no", "yes"))


class Data(NamedTuple):
    """The data of three small suites that share sentences."""

    sts: list[ScoredPairs]
    geometry: ScoredPairs
    tasks: dict[str, dict[str, LabelledTexts]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folds and two penalties in place of ten and seven."""
    short = LogisticPreset(folds=2, penalties=(0.5, 2.0), fold_penalties=(0.5, 2.0))
    monkeypatch.setitem(PRESETS, "logreg", short)  # type: ignore[arg-type]


@pytest.fixture
def data() -> Data:
    tasks = {
        name: {split: labelled(name, split, 40, seed) for split, seed in (("train", 1), ("test", 30))}
        for name in ("trec", "mrpc")
    }
    sts = [make_pairs("sts12", "test"), make_pairs("stsb", "test", seed=9)]
    return Data(sts, make_pairs("stsb", "dev", seed=9), tasks)


@pytest.fixture
def loaded(data: Data) -> Loaded:
    pairs, geometry = pair_suite(STS, data.sts), geometry_suite(data.geometry)
    return Loaded((pairs, geometry, transfer_suite(data.tasks, "logreg", 1111)))


def values(record: Record) -> dict[tuple[str, str, str], float]:
    return {(one.dataset, one.metric, one.protocol): one.value for one in record.scores}


def test_every_unique_sentence_is_encoded_once_for_all_suites(loaded: Loaded) -> None:
    encoder = Letters()
    told: list[str] = []
    result = run_suites(encoder, loaded, announce=told.append)
    texts = {text for one in loaded.suites for texts in one.texts.values() for text in texts}
    assert sorted(encoder.asked) == sorted(texts)
    assert result.sentences == len(encoder.asked)
    assert list(result.records) == ["sts", "geometry", "transfer"]
    assert [line.split()[:2] for line in told[-4:]] == [
        ["sts:", "2"], ["geometry:", "alignment"], ["transfer:", "trec"], ["transfer:", "mrpc"]
    ]  # fmt: skip
    for suite in loaded.suites[:2]:
        ((alone, _),) = suite.evaluate(Letters(), [*suite.checksums])
        assert values(result.records[suite.name]) == values(alone)
    transfer = result.records["transfer"]
    assert [one.name for one in transfer.datasets] == ["trec", "mrpc"]
    assert set(transfer.details["penalties"]) == {"trec", "mrpc"}
    predicted, gold = load_predictions(transfer)
    assert transfer.score("mrpc") == round(100 * np.mean(predicted["mrpc"] == gold["mrpc"]), 2)


def interrupt_at(beginning: str) -> Callable[[str], None]:
    def announce(line: str) -> None:
        if line.strip().startswith(beginning):
            raise KeyboardInterrupt

    return announce


def test_an_interrupted_run_resumes(loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_TEXTS_PER_LINE", 16)
    first, second, third = Letters(), Letters(), Letters()
    with pytest.raises(KeyboardInterrupt):
        run_suites(first, loaded, output=tmp_path, announce=interrupt_at("encoded 32"))
    assert len(first.asked) == 32
    with pytest.raises(KeyboardInterrupt):
        run_suites(second, loaded, output=tmp_path, announce=interrupt_at("transfer: trec"))
    assert not set(first.asked) & set(second.asked)
    assert [one.name for one in read_record(next(tmp_path.glob("*.transfer.*"))).datasets] == ["trec"]
    told: list[str] = []
    result = run_suites(third, loaded, output=tmp_path, announce=told.append)
    assert third.asked == []
    assert result.reused == ("sts", "geometry")
    assert [line.strip() for line in told[:2]] == ["sts: already evaluated", "geometry: already evaluated"]
    assert told[-1].strip().startswith("transfer: mrpc")
    fresh = run_suites(Letters(), loaded).records["transfer"]
    resumed = read_record(next(tmp_path.glob("*.transfer.*")))
    assert values(resumed) == values(fresh)
    assert resumed.details == fresh.details
    for one, other in zip(load_predictions(resumed), load_predictions(fresh), strict=True):
        assert all(np.array_equal(one[task], other[task]) for task in ("trec", "mrpc"))
    assert {path.name.split(".", 1)[1] for path in tmp_path.glob("*.json")} == {
        "sts.all.json", "geometry.stsb-dev.json", "transfer.logreg.seed-1111.json"
    }  # fmt: skip
    assert not list(tmp_path.glob(".vectors*"))


def test_complete_records_are_not_made_again_unless_asked(loaded: Loaded, tmp_path: Path) -> None:
    made = run_suites(Letters(), loaded, output=tmp_path, command=["sentemb", "eval", "all"])
    again = run_suites(encoder := Letters(), loaded, output=tmp_path)
    assert again.reused == ("sts", "geometry", "transfer")
    assert (encoder.asked, again.sentences, again.seconds) == ([], 0, {})
    for name, record in again.records.items():
        assert values(record) == values(made.records[name])
        assert record.environment.command == ("sentemb", "eval", "all")
    run_suites(encoder, loaded, output=tmp_path, overwrite=True)
    assert encoder.asked


def test_records_that_would_come_out_differently_are_refused(
    data: Data, loaded: Loaded, tmp_path: Path
) -> None:
    run_suites(Letters(), loaded, output=tmp_path)
    with pytest.raises(InputError, match="record of another model"):
        run_suites(Letters("others"), loaded, output=tmp_path, overwrite=True)
    with pytest.raises(InputError, match=r"with other data or other settings; add --overwrite"):
        run_suites(Letters(precision="bfloat16"), loaded, output=tmp_path)
    one, trec = data.sts[0], data.tasks["trec"]
    other = {**trec, "test": replace(trec["test"], labels=1 - trec["test"].labels)}
    for suite in (
        pair_suite(STS, [replace(one, gold=one.gold + 1)]),
        geometry_suite(replace(data.geometry, gold=data.geometry.gold + 1)),
        transfer_suite({"trec": other}, "logreg", 1111),
    ):
        with pytest.raises(InputError, match="already exists"):
            run_suites(Letters(), Loaded((suite,)), output=tmp_path)


def test_a_record_of_fewer_sets_gets_the_others(data: Data, tmp_path: Path) -> None:
    sts, fewer = pair_suite(STS, data.sts), pair_suite(STS, [data.sts[0]])
    run_suites(Letters(), Loaded((fewer,)), output=tmp_path)
    encoder = Letters()
    result = run_suites(encoder, Loaded((sts,)), output=tmp_path)
    assert result.reused == ()
    assert not set(encoder.asked) - set(sts.texts["stsb"])
    (path,) = tmp_path.glob("*.json")
    assert values(read_record(path)) == values(run_suites(Letters(), Loaded((sts,))).records["sts"])
    assert run_suites(Letters(), Loaded((fewer,)), output=tmp_path).reused == ("sts",)


def test_a_model_seed_and_a_classifier_seed_name_records(data: Data, loaded: Loaded, tmp_path: Path) -> None:
    encoder = Letters()
    encoder.name = "letters-seed-3"
    sts = Loaded(loaded.suites[:1])
    assert run_suites(encoder, sts, output=tmp_path).records["sts"].seed == 3
    assert run_suites(encoder, sts, output=tmp_path).reused == ("sts",)
    suites = tuple(transfer_suite(data.tasks, "logreg", seed, several=True) for seed in (1, 2))
    result = run_suites(Letters(), Loaded(suites), output=tmp_path)
    assert list(result.records) == ["transfer seed 1", "transfer seed 2"]
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        "letters-seed-3.sts.all.seed-3.json",
        "letters.transfer.logreg.seed-1.json",
        "letters.transfer.logreg.seed-2.json",
    ]


def test_a_function_may_have_changed_and_is_evaluated_again(loaded: Loaded, tmp_path: Path) -> None:
    function, evaluated = Letters().encode, Loaded(loaded.suites[:1])
    run_suites(load_encoder(function), evaluated, output=tmp_path)
    assert not list(tmp_path.glob(".vectors*"))
    with pytest.raises(InputError, match="add --overwrite"):
        run_suites(load_encoder(function), evaluated, output=tmp_path)
    assert run_suites(load_encoder(function), evaluated, output=tmp_path, overwrite=True).reused == ()


def test_geometry_comes_back(data: Data, shared_data: Path, tmp_path: Path) -> None:
    run_suites(Letters(), Loaded((geometry_suite(data.geometry),)), output=tmp_path / "made")
    (path,) = (tmp_path / "made").glob("*.json")
    ((made, _),) = geometry_suite(data.geometry).evaluate(Letters(), ["stsb"])
    back = read_record(path)
    assert back.scores == made.scores
    assert back.details == {**made.details, "spectrum": pytest.approx(made.details["spectrum"])}
    assert len(back.details["spectrum"]) == 27
    assert all(one.low is not None and one.low < one.value < one.high for one in back.scores)
    real = evaluate_all(Letters(), suites=["geometry"], data_dir=shared_data, output=tmp_path / "real")
    details = real.records["geometry"].details
    assert (details["sentences"], details["independent"]) == (2910, 1413)


def test_missing_data_is_named_at_once_and_skipped_only_when_allowed(
    tmp_path: Path, write_file: Callable[[str, str], Path]
) -> None:
    rows = "".join(f"g\tf\t2012\t{n}\t{n % 6}\tthe cat {n} sat\ta dog {n % 7} ran\n" for n in range(30))
    for split in ("dev", "test"):
        write_file(f"senteval/downstream/STS/STSBenchmark/sts-{split}.csv", rows)
    options = Options(data_dir=tmp_path, check_rows=False)
    with pytest.raises(InputError) as refused:
        load_suites(["sts", "geometry", "transfer"], options)
    assert f"{tmp_path} does not contain sts12 (searched for " in str(refused.value)
    assert "), nor sts13, sts14, sts15, sts16, sickr, sickr-mteb, mr, cr, " in str(refused.value)
    assert "--allow-missing" in str(refused.value)
    some = load_suites(["transfer", "geometry", "sts"], options, allow_missing=True)
    assert [one.name for one in some.suites] == ["sts", "geometry"]
    assert len(some.missing) == 14
    with pytest.raises(InputError, match="set the folder of the data with --data-dir"):
        load_suites(["transfer"], options, allow_missing=True)
    with pytest.raises(InputError, match="30 rows instead of 1,379"):  # damaged is not missing
        load_suites(["sts"], Options(data_dir=tmp_path), allow_missing=True)
    for names, problem in ((["sts", "sts"], "sts is listed twice"), ([], "the list of suites is empty")):
        with pytest.raises(InputError, match=problem):
            load_suites(names, options)


def test_retrieval_takes_the_sets_that_are_there(tmp_path: Path) -> None:
    data = make_set("cacm", 30, 10)
    folder = tmp_path / "data" / "cacm"
    (folder / "qrels").mkdir(parents=True)
    for name, ids, texts in (
        ("corpus", data.document_ids, data.documents),
        ("queries", data.query_ids, data.queries),
    ):
        rows = (json.dumps({"_id": one, "text": text}) for one, text in zip(ids, texts, strict=True))
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\n")
    options = Options(data_dir=tmp_path / "data", check_rows=False)
    loaded = load_suites(["retrieval"], options)
    assert [error.name for error in loaded.missing] == ["scifact", "cisi", "tldr", "qnli-dev", "xquad-r/en"]
    letters = Letters()
    result = run_suites(letters, loaded, output=tmp_path / "out")
    assert [one.name for one in result.records["retrieval"].datasets] == ["cacm"]
    assert len(letters.asked) == len({*data.documents}) + 1  # the one judged query
    with pytest.raises(InputError, match="does not contain sts12"):
        load_suites(["sts", "retrieval"], options)
    with pytest.raises(InputError, match=r"does not contain scifact .*, nor cisi"):
        load_suites(["retrieval"], Options(data_dir=tmp_path))
    with pytest.raises(InputError, match=r"does not contain cisi .*; set the folder"):
        load_suites(["retrieval"], replace(options, sets=["cacm", "cisi"]))
