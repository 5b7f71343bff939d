from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sentemb.data.sts import Subset
from sentemb.errors import InputError
from sentemb.evaluation.measures import PROTOCOLS, measure
from sentemb.evaluation.record import (
    COLUMNS,
    PEARSON_WITHIN,
    check_free,
    load_predictions,
    load_records,
    pack,
    pack_gold,
    read_record,
    to_frame,
    unpack,
    unpack_gold,
    write_record,
)
from sentemb.evaluation.schema import DataSet, Record, Score, Trial, slug
from tests.records import data_set, make_record

HALVES = (Subset("one", 0, 20), Subset("two", 20, 50))


def sts_record(*, count: int = 50, seed: int | None = 3, noise: float = 0.3, **changes: Any) -> Record:
    """An STS record with a set in two parts and one in one part; `noise` decides its predictions."""
    random = np.random.default_rng(11)
    gold = {name: random.integers(0, 26, count) / 5 for name in ("parts", "stsb")}
    values = {name: one / 5 + noise * random.normal(size=count) for name, one in gold.items()}
    sets = (
        DataSet(name="parts", split="test", items=count, sha256="a" * 64, subsets=HALVES),
        DataSet(name="stsb", split="dev", items=count, sha256="b" * 64, source="data/stsb.csv"),
    )
    scores = tuple(
        Score(
            dataset=one.name,
            metric=metric,
            protocol=protocol,
            value=100
            * measure(metric, values[one.name], gold[one.name], protocol=protocol, subsets=one.subsets),
        )
        for one in sets
        for metric in ("spearman", "pearson")
        for protocol in PROTOCOLS
    )
    given: dict[str, Any] = {"suite": "sts", "model": "org/mine-seed-3", "dimension": 4, "seed": seed}
    given |= {"details": {"unique": 9}, "encoder": {"precision": "float32"}}
    return make_record(datasets=sets, scores=scores, **(given | changes)).with_predictions(values, gold)


def write(record: Record, folder: Path, **options: Any) -> Path:
    return write_record(record, *load_predictions(record), folder, **options)


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize("count", [50, 9000])
def test_round_trip_keeps_everything(tmp_path: Path, count: int) -> None:
    record = sts_record(count=count)
    path = write(record, tmp_path)
    back = read_record(path)
    assert path.name == "org__mine-seed-3.sts.all.seed-3.json"
    assert back.model_dump(exclude={"predictions"}) == record.model_dump(exclude={"predictions"})
    assert len(list(tmp_path.glob("*.safetensors"))) == (0 if count == 50 else 1)  # small ones are inside
    lines = path.read_text().splitlines()
    assert lines[0] == '{"format":"sentemb-record",'
    assert sum(line.startswith('  {"dataset":"stsb"') for line in lines) == 6
    assert len(list((tmp_path / "gold").iterdir())) == 2
    old, new = load_predictions(record), load_predictions(back)
    for name, values in old.values.items():
        np.testing.assert_array_equal(new.gold[name], old.gold[name])
        np.testing.assert_allclose(new.values[name], values, atol=1e-3)
        np.testing.assert_array_equal(np.argsort(new.values[name]), np.argsort(values))


def test_same_model_is_replaced_only_on_request(tmp_path: Path) -> None:
    record = sts_record(count=9000)
    write(record, tmp_path)
    with pytest.raises(InputError, match="already exists; add --overwrite"):
        write(record, tmp_path)
    write(sts_record(count=9000, noise=0.5), tmp_path, overwrite=True)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1  # the old predictions are gone
    other = record.model_copy(update={"fingerprint": "another"})
    with pytest.raises(InputError, match="record of another model"):
        check_free(tmp_path / record.file_name, other.fingerprint, overwrite=True)
    with pytest.raises(InputError, match="record of another model"):
        write(other, tmp_path, overwrite=True)
    (tmp_path / record.file_name).write_text('{"weights": 1}')
    with pytest.raises(InputError, match="is not a result record"):
        write(record, tmp_path, overwrite=True)


def test_records_are_found_by_suite_and_model(tmp_path: Path) -> None:
    write(sts_record(), tmp_path)
    write(sts_record(seed=None), tmp_path)
    write(sts_record(suite="multilingual", fingerprint="e" * 64), tmp_path)
    (tmp_path / "settings.json").write_text("{}")
    found = [(one.suite, one.seed) for one in load_records(tmp_path)]
    assert found == [("multilingual", 3), ("sts", None), ("sts", 3)]
    assert len(load_records([tmp_path], suite="sts")) == 2
    assert len(load_records(str(tmp_path))) == len(load_records([str(tmp_path)])) == 3
    assert [one.suite for one in load_records(tmp_path, fingerprint="e" * 64)] == ["multilingual"]
    with pytest.raises(InputError, match="no record of the suite transfer found"):
        load_records(tmp_path, suite="transfer")
    with pytest.raises(InputError, match="no such file or folder"):
        load_records(tmp_path / "none")
    with pytest.raises(InputError, match=r"settings\.json is not a result record"):
        load_records(tmp_path / "settings.json")


def test_scores_and_averages() -> None:
    record = sts_record()
    assert record.score("parts", "pearson", "mean") == record.scores[4].value
    assert record.average() is None  # not all of the seven sets
    with pytest.raises(InputError, match=r"does not contain spearman \(best\) of parts"):
        record.score("parts", "spearman", "best")
    with pytest.raises(InputError, match="was not evaluated on sts12; choose among parts, stsb"):
        record.dataset("sts12")


@pytest.mark.parametrize("calls_that_work", [0, 2])
def test_a_full_disk_leaves_the_old_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls_that_work: int
) -> None:
    path = write(sts_record(count=9000), tmp_path)
    before, real, calls = path.read_bytes(), os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > calls_that_work:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(sts_record(count=9000, noise=0.5), tmp_path, overwrite=True)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert load_predictions(read_record(path)).values


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda v: v.pop("fingerprint"), "field fingerprint: Field required"),
        (lambda v: v.update(version=2), "field version: .* reads 1, not 2"),
        (lambda v: v.update(suite="sport"), "field suite: unknown suite 'sport'"),
        (lambda v: v.update(seed="one"), "field seed: Input should be a valid integer"),
        (lambda v: v.update(seed=True), "field seed: Input should be a valid integer"),
        (lambda v: v.update(protocol="x"), "field protocol: 'x' is not one of all, mean, wmean"),
        (lambda v: v["scores"][0].update(protocol="x"), r"field scores\[0\].protocol: 'x' is not one of all"),
        (lambda v: v.update(weight=1), "field weight: Extra inputs are not permitted"),
        (lambda v: v.update(scores=[]), "field scores: Tuple should have at least 1 item"),
        (lambda v: v.update(datasets=["stsb"]), r"field datasets\[0\]: "),
        (lambda v: v["datasets"][1].update(items=49), "field datasets, stsb: 49 items, but there are 50"),
        (lambda v: v["datasets"][1].update(sha256="../x"), r"field datasets\[1\].sha256"),
        (lambda v: v["datasets"][1].update(sha256="c" * 64), "no such file: .*the gold values of stsb"),
        (lambda v: v["datasets"][1].update(name="parts"), "a data set is listed twice"),
        (lambda v: v["scores"][0].update(dataset="mnli"), r"scores\[0\].dataset: 'mnli' is not a data set"),
        (lambda v: v["scores"].append(v["scores"][0]), r"scores\[12\]: .* is listed twice"),
        *(
            (
                lambda v, index=index: v["scores"][index].update(value=99.0),
                rf"field scores\[{index}\].value: 99.0 does not match the {metric}",
            )
            for index, metric in ((0, "spearman"), (2, "spearman"), (9, "pearson"))
        ),
        (lambda v: v["environment"].update(seconds={"encode": "fast"}), "field environment.seconds.encode: "),
        (lambda v: v["predictions"].update(data='"'), "field predictions.data"),
        (lambda v: v["predictions"].update(data=None, file="../x.safetensors"), "field predictions.file"),
        (
            lambda v: v["predictions"].update(data=None, file="gone.safetensors"),
            "field predictions.file: no such file",
        ),
        (lambda v: v["predictions"].update(sha256="0" * 64), "field predictions.sha256: .*was modified"),
    ],
)
def test_damage_is_named_by_file_and_field(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], problem: str
) -> None:
    path = write(sts_record(), tmp_path)
    rewrite(path, change)
    with pytest.raises(InputError, match=problem) as caught:
        load_records(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = write(sts_record(count=9000), tmp_path)
    predictions = next(tmp_path.glob("*.safetensors"))
    content = predictions.read_bytes()
    predictions.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="was modified after the evaluation"):
        read_record(path)
    predictions.write_bytes(content)
    gold = tmp_path / "gold" / f"{'a' * 16}.safetensors"
    gold.write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read"):
        read_record(path)
    path.write_text(path.read_text()[:100])
    with pytest.raises(InputError, match="is not valid JSON"):
        read_record(path)
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="is not valid JSON"):
        read_record(path)
    path.write_text('{"format": "sentemb-result", "format_version": 1}')
    with pytest.raises(InputError, match="is not a result record"):
        read_record(path)


def test_other_gold_under_the_same_checksum_is_refused(tmp_path: Path) -> None:
    record = sts_record()
    write(record, tmp_path)
    values, gold = load_predictions(record)
    other = record.model_copy(update={"scores": record.scores[:1], "seed": 4})
    with pytest.raises(InputError, match="does not match the spearman"):
        write_record(other, values, {"parts": gold["stsb"]}, tmp_path)
    unscored = other.model_copy(update={"scores": (Score(dataset="overall", metric="x", value=1.0),)})
    with pytest.raises(InputError, match="the existing gold values of parts differ"):
        write_record(unscored, values, {"parts": gold["stsb"]}, tmp_path)


def test_a_frame_has_a_row_for_each_score(tmp_path: Path) -> None:
    trial = make_record(
        "classification",
        "scl",
        [data_set("cola", 4, classes=("no", "yes"))],
        [
            ("cola", "accuracy", 0.75),
            ("cola", "matthews", 1 / 3**0.5),
            ("cola", "f1", 0.8),
            ("cola", "macro_f1", (0.8 + 2 / 3) / 2),
            Score(dataset="cola", metric="accuracy", protocol="validation", value=0.5),
        ],
        base="bert-mini",
        protocol="train-300",
        trial=Trial(experiment="few-shot", method="scl", setting={"train": 300}),
    )
    gold, values = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.0, 1.0]], dtype=np.float32)
    path = write_record(
        trial, {"cola": values, "cola:probabilities": probabilities}, {"cola": gold}, tmp_path
    )
    back = load_predictions(read_record(path)).values
    np.testing.assert_array_equal(back["cola"], values)
    np.testing.assert_allclose(back["cola:probabilities"], probabilities, atol=0.002)

    frame = to_frame([sts_record(), read_record(path)])
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == 12 + 5
    row = frame[(frame.suite == "classification") & (frame.metric == "matthews")].iloc[0]
    assert [*row[["method", "base", "experiment", "setting"]]] == "scl bert-mini few-shot train=300".split()
    assert row.value == pytest.approx(57.735)  # x 100, though the record holds a fraction
    row = frame.iloc[0]
    assert (row.method, row.seed, row["items"], row.split) == ("org/mine", 3, 50, "test")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org/model", "org__model"),
        ("../../etc/passwd", "__..__etc__passwd"),
        ("test.<locals>.encode", "test.-locals-.encode"),
        ("...", "model"),
        ("模型", "model"),
        ("x" * 300, "x" * 120),
    ],
)
def test_a_slug_is_one_safe_file_name(name: str, expected: str) -> None:
    assert slug(name) == expected


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, np.nextafter(1.0, 0.0), 0.3, 0.3, -0.2, 1.0]),  # a tie, and two that are all but one
        1 - np.random.default_rng(0).random(20_000) ** 9 * 1e-9,  # crowded at one end
        np.full(5, 0.25),
        np.arange(70_000) / 3,  # more values than 16 bits have codes
    ],
)
def test_codes_keep_order_and_ties(values: np.ndarray) -> None:
    tensors = pack({"set": values})
    back = unpack(tensors)["set"]
    assert tensors["set"].dtype == (np.uint16 if len(values) == 20_000 else np.uint32)
    np.testing.assert_array_equal(stats.rankdata(back), stats.rankdata(values))
    assert back.min() == pytest.approx(values.min()) and back.max() == pytest.approx(values.max())


def test_pearson_stays_within_what_is_documented() -> None:
    random = np.random.default_rng(1)
    gold = random.integers(0, 26, 3000) / 5
    for power in (1, 3, 0.2):
        values = np.clip(gold / 5 + 0.3 * random.normal(size=3000), 0, 1) ** power
        back = unpack(pack({"set": values}))["set"]
        assert measure("pearson", back, gold) == pytest.approx(
            measure("pearson", values, gold), abs=PEARSON_WITHIN
        )


@pytest.mark.parametrize(
    ("values", "kind"), [([0, 3, 1], np.uint8), ([0, 300], np.uint16), ([-1, 5], np.int8), ([], np.uint8)]
)
def test_integers_take_the_smallest_type(values: list[int], kind: type) -> None:
    tensors = pack({"set": np.array(values, dtype=np.int64)})
    assert tensors["set"].dtype == kind
    np.testing.assert_array_equal(unpack(tensors)["set"], values)


def test_gold_is_exact() -> None:
    gold = np.random.default_rng(2).random(500)
    for one in (gold, np.repeat(gold, 3), np.array([2, 0, 1])):
        np.testing.assert_array_equal(unpack_gold(pack_gold(one)), one)
        assert unpack_gold(pack_gold(one)).dtype == one.dtype
