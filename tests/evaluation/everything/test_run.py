"""All suites from one encoding, kept part by part, gone on with after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.data.labelled import LabelledTexts
from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation.everything import evaluate_all, judge_all, load_suites, run
from sentemb.evaluation.everything.pairs import GeometrySuite, PairsSuite
from sentemb.evaluation.everything.suite import Loaded, Options
from sentemb.evaluation.everything.tasks import TransferSuite
from sentemb.evaluation.geometry_records import judge_geometry, read_geometry
from sentemb.evaluation.judge import judge_sts
from sentemb.evaluation.records import read_record, write_record
from sentemb.evaluation.suites import STS
from sentemb.evaluation.transfer.records import read_transfer
from tests.evaluation.conftest import sentences

OPTIONS = Options(preset="logreg")


class Letters:
    """An encoder that counts letters, and keeps what it was asked for."""

    def __init__(self, fingerprint: str = "letters", precision: str = "float64") -> None:
        self.fingerprint, self.precision = fingerprint, precision
        self.asked: list[str] = []

    name = "letters"
    dimension = 27

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> np.ndarray:
        self.asked += texts
        letters = "abcdefghijklmnopqrstuvwxyz"
        return np.array([[1, *map(text.count, letters)] for text in texts], dtype=np.float32)

    def describe(self) -> dict[str, Any]:
        return {"precision": self.precision}


def labelled(name: str, split: str, rows: int, seed: int) -> LabelledTexts:
    generator = np.random.default_rng(seed)
    texts = [f"{text} {('eat', 'fly')[row % 2]}" for row, text in enumerate(sentences(rows, seed))]
    noise = generator.permutation([0, 1] * (rows // 2))
    labels = np.where(generator.random(rows) < 0.7, [0, 1] * (rows // 2), noise)
    return LabelledTexts(name, split, texts, None, labels, ("no", "yes"))


@pytest.fixture
def loaded(make_pairs: Callable[..., ScoredPairs]) -> Loaded:
    """Three small suites that share sentences: the pairs of two of them, and a task's texts."""
    sts = (make_pairs("sts12", "test"), make_pairs("stsb", "test", seed=9))
    tasks = {
        name: {split: labelled(name, split, 40, seed) for split, seed in (("train", 1), ("test", 30))}
        for name in ("trec", "mrpc")
    }
    return Loaded(
        (
            PairsSuite(STS, sts, OPTIONS),
            GeometrySuite(make_pairs("stsb", "dev", seed=9), OPTIONS),
            TransferSuite(tasks, OPTIONS),
        )
    )


def test_every_different_sentence_is_encoded_once_for_all_suites(loaded: Loaded) -> None:
    encoder = Letters()
    said: list[str] = []
    judgement = judge_all(encoder, loaded, say=said.append)
    everything = {text for suite in loaded.suites for text in suite.texts(None)}
    assert sorted(encoder.asked) == sorted(everything)
    assert judgement.sentences == len(everything)
    assert list(judgement.records) == ["sts", "geometry", "transfer"]
    assert [line.split()[:2] for line in said[-4:]] == [
        ["sts:", "2"], ["geometry:", "alignment"], ["transfer:", "trec"], ["transfer:", "mrpc"]
    ]  # fmt: skip
    alone = judge_sts(Letters(), loaded.suites[0].pairs)
    assert judgement.records["sts"].scores("all") == alone.scores("all")
    estimate = judge_geometry(Letters(), loaded.suites[1].pairs).estimate
    assert judgement.records["geometry"].estimate == estimate
    report = judgement.records["transfer"]
    assert [result.task for result in report.results] == ["trec", "mrpc"]
    assert report.unique == len(set(loaded.suites[2].texts(None)))
    tables = run.tables_of([judgement, judgement], loaded.suites)
    assert [len(table.rows) for table in tables] == [2, 2, 1]  # reports of one model are one row


def interrupt_at(beginning: str) -> Callable[[str], None]:
    def say(line: str) -> None:
        if line.strip().startswith(beginning):
            raise KeyboardInterrupt

    return say


def test_what_was_interrupted_goes_on(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_TEXTS_PER_LINE", 16)
    first, second, third = Letters(), Letters(), Letters()
    with pytest.raises(KeyboardInterrupt):
        judge_all(first, loaded, output=tmp_path, say=interrupt_at("encoded 32"))
    assert len(first.asked) == 32
    with pytest.raises(KeyboardInterrupt):
        judge_all(second, loaded, output=tmp_path, say=interrupt_at("transfer: trec"))
    assert not set(first.asked) & set(second.asked)
    assert [one.task for one in read_transfer(next(tmp_path.glob("*.transfer.*.json"))).results] == ["trec"]
    said: list[str] = []
    judgement = judge_all(third, loaded, output=tmp_path, say=said.append)
    assert third.asked == []
    assert judgement.reused == ("sts", "geometry")
    assert [line.strip() for line in said[:2]] == ["sts: recorded already", "geometry: recorded already"]
    assert said[-1].strip().startswith("transfer: mrpc")
    fresh = judge_all(Letters(), loaded)
    for one, other in zip(
        judgement.records["transfer"].results, fresh.records["transfer"].results, strict=True
    ):
        assert np.array_equal(one.predictions, other.predictions)
    assert judgement.records["transfer"].unique == fresh.records["transfer"].unique
    assert {path.name.split(".", 1)[1] for path in tmp_path.glob("*.json")} == {
        "sts.all.json", "geometry.stsb-dev.json", "transfer.logreg.seed-1111.json"
    }  # fmt: skip
    assert not list(tmp_path.glob(".vectors*"))


def test_complete_records_are_not_made_again_unless_asked(loaded: Loaded, tmp_path: Path) -> None:
    made = judge_all(Letters(), loaded, output=tmp_path)
    again = judge_all(encoder := Letters(), loaded, output=tmp_path)
    assert again.reused == ("sts", "geometry", "transfer")
    assert (encoder.asked, again.sentences, again.seconds) == ([], 0, {})
    assert again.records["geometry"] is not made.records["geometry"]
    assert again.records["geometry"].estimate == made.records["geometry"].estimate
    judge_all(encoder, loaded, output=tmp_path, overwrite=True)
    assert encoder.asked


def test_records_that_would_come_out_differently_are_refused(loaded: Loaded, tmp_path: Path) -> None:
    judge_all(Letters(), loaded, output=tmp_path)
    with pytest.raises(InputError, match="record of another model"):
        judge_all(Letters("others"), loaded, output=tmp_path, overwrite=True)
    with pytest.raises(InputError, match=r"made of other data or with other settings; add --overwrite"):
        judge_all(Letters(precision="bfloat16"), loaded, output=tmp_path)
    sts, geometry, _ = loaded.suites
    for suite in (
        replace(sts, pairs=(replace(sts.pairs[0], gold=sts.pairs[0].gold + 1),)),
        replace(geometry, pairs=replace(geometry.pairs, gold=geometry.pairs.gold + 1)),
    ):
        with pytest.raises(InputError, match="already there"):
            judge_all(Letters(), Loaded((suite,)), output=tmp_path)


def test_a_record_of_fewer_sets_is_replaced_by_one_of_all(loaded: Loaded, tmp_path: Path) -> None:
    path = write_record(judge_sts(Letters(), loaded.suites[0].pairs[:1]), tmp_path)
    judgement = judge_all(Letters(), Loaded(loaded.suites[:1]), output=tmp_path)
    assert judgement.reused == ()
    assert [one.name for one in read_record(path).sets] == ["sts12", "stsb"]
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_the_record_of_a_seed_is_known_by_the_name_of_its_folder(loaded: Loaded, tmp_path: Path) -> None:
    encoder = Letters()
    encoder.name = "letters-seed-3"
    record = judge_sts(encoder, loaded.suites[0].pairs)
    assert record.seed == 3
    assert judge_sts(encoder, loaded.suites[0].pairs, seed=4).seed == 4
    assert judge_sts(Letters(), loaded.suites[0].pairs).seed is None
    path = write_record(record, tmp_path)
    assert path.name == "letters-seed-3.sts.all.seed-3.json"
    assert judge_all(encoder, Loaded(loaded.suites[:1]), output=tmp_path).reused == ("sts",)
    assert [path] == list(tmp_path.glob("*.json"))


def test_a_function_may_have_changed_and_is_judged_anew(loaded: Loaded, tmp_path: Path) -> None:
    function = Letters().encode
    evaluated = Loaded(loaded.suites[:1])
    from sentemb.encoding import load_encoder

    judge_all(load_encoder(function), evaluated, output=tmp_path)
    assert not list(tmp_path.glob(".vectors*"))
    with pytest.raises(InputError, match="add --overwrite"):
        judge_all(load_encoder(function), evaluated, output=tmp_path)
    assert judge_all(load_encoder(function), evaluated, output=tmp_path, overwrite=True).reused == ()


def test_geometry_comes_back(loaded: Loaded, tmp_path: Path) -> None:
    judgement = judge_all(Letters(), Loaded(loaded.suites[1:2]), output=tmp_path)
    record = judgement.records["geometry"]
    (path,) = tmp_path.glob("*.json")
    assert vars(read_geometry(path)) == {**vars(record), "spectrum": pytest.approx(record.spectrum)}
    path.write_text(path.read_text().replace('"positives"', '"negatives"'))
    with pytest.raises(InputError, match=r"field positives: missing"):
        read_geometry(path)


def test_what_is_not_there_is_named_at_once_and_left_out_only_when_allowed(
    tmp_path: Path, write_file: Callable[[str, str], Path]
) -> None:
    rows = "".join(f"g\tf\t2012\t{n}\t{n % 6}\tthe cat {n} sat\ta dog {n % 7} ran\n" for n in range(30))
    for split in ("dev", "test"):
        write_file(f"senteval/downstream/STS/STSBenchmark/sts-{split}.csv", rows)
    options = Options(data_dir=tmp_path, check_rows=False)
    with pytest.raises(InputError) as refused:
        load_suites(["sts", "geometry", "transfer"], options)
    assert f"{tmp_path} holds no sts12 (looked for " in str(refused.value)
    assert "), nor sts13, sts14, sts15, sts16, sickr, sickr-mteb, mr, cr, " in str(refused.value)
    assert "--allow-missing" in str(refused.value)
    some = load_suites(["transfer", "geometry", "sts"], options, allow_missing=True)
    assert [one.name for one in some.suites] == ["sts", "geometry"]
    assert len(some.missing) == 14
    with pytest.raises(InputError, match="name the folder of the data, or other --suites"):
        load_suites(["transfer"], options, allow_missing=True)
    with pytest.raises(InputError, match="30 of 1,379 rows"):  # damaged is not missing
        load_suites(["sts"], Options(data_dir=tmp_path), allow_missing=True)
    with pytest.raises(InputError, match="no suite is called 'glue'"):
        load_suites(["glue"], options)
    with pytest.raises(InputError, match="sts is named twice"):
        load_suites(["sts", "sts"], options)


def test_from_python_on_real_data(shared_data: Path, tmp_path: Path) -> None:
    judgement = evaluate_all(Letters(), suites=["geometry"], data_dir=shared_data, output=tmp_path)
    estimate = judgement.records["geometry"].estimate
    assert estimate.sentences == 2910
    assert estimate.independent == 1413
    assert estimate.low.uniformity < estimate.geometry.uniformity < estimate.high.uniformity
