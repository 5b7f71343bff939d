from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentemb.data.sts import ScoredPairs
from sentemb.errors import InputError
from sentemb.evaluation import evaluate_pairs
from sentemb.evaluation.record_files import slug
from sentemb.evaluation.records import (
    ResultRecord,
    prepare_folder,
    read_record,
    read_records,
    record_of,
    write_record,
)


def lengths(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), text.count("a"), text.count("e"), 1.0] for text in texts])


@pytest.fixture
def record(three_parts: ScoredPairs, make_pairs: Callable[..., ScoredPairs]) -> ResultRecord:
    report = evaluate_pairs(lengths, [three_parts, make_pairs("stsb", "test")])
    return record_of(report, seed=3, command=["sentemb", "eval", "sts"])


def test_round_trip_keeps_everything(record: ResultRecord, tmp_path: Path) -> None:
    path = write_record(record, tmp_path)
    assert path.name == "lengths.sts.all.seed-3.json"
    back = read_record(path)
    for field in dataclasses.fields(ResultRecord):
        if field.name != "sets":
            assert getattr(back, field.name) == getattr(record, field.name), field.name
    for one, two in zip(back.sets, record.sets, strict=True):
        assert (one.name, one.split, one.scores, one.checksum) == (
            two.name,
            two.split,
            two.scores,
            two.checksum,
        )
        assert one.predictions.subsets == two.predictions.subsets
        np.testing.assert_array_equal(one.predictions.similarities, two.predictions.similarities)
        np.testing.assert_array_equal(one.predictions.gold, two.predictions.gold)


def test_json_holds_what_decides_a_number(record: ResultRecord, tmp_path: Path) -> None:
    values = json.loads(write_record(record, tmp_path).read_text())
    assert values["protocol"] == "all"
    assert values["seed"] == 3
    assert set(values["sets"][0]["scores"]) == {"all", "mean", "wmean"}
    assert values["sets"][0]["pairs"] == 60
    assert len(values["sets"][0]["data"]["sha256"]) == 64
    assert {"torch", "sentence-transformers", "sentemb", "python"} <= set(values["versions"])
    assert values["hardware"]["cores"] >= 1
    assert values["command"] == ["sentemb", "eval", "sts"]
    assert values["date"].endswith("+00:00")


def test_same_model_is_replaced_only_on_request(record: ResultRecord, tmp_path: Path) -> None:
    write_record(record, tmp_path)
    with pytest.raises(InputError, match="already there; add --overwrite"):
        write_record(record, tmp_path)
    fewer = dataclasses.replace(record, sets=record.sets[:1])
    path = write_record(fewer, tmp_path, overwrite=True)
    assert len(read_record(path).sets) == 1
    assert len(list(tmp_path.iterdir())) == 2  # the old predictions are gone


def test_another_models_record_is_never_replaced(record: ResultRecord, tmp_path: Path) -> None:
    write_record(record, tmp_path)
    other = dataclasses.replace(record, fingerprint="another")
    with pytest.raises(InputError, match="record of another model"):
        write_record(other, tmp_path, overwrite=True)


def test_a_foreign_file_is_never_replaced(record: ResultRecord, tmp_path: Path) -> None:
    (tmp_path / record.file_name).write_text('{"weights": 1}')
    with pytest.raises(InputError, match="is no result record"):
        write_record(record, tmp_path, overwrite=True)


def test_seeds_and_protocols_lie_side_by_side(record: ResultRecord, tmp_path: Path) -> None:
    write_record(record, tmp_path)
    write_record(dataclasses.replace(record, seed=None), tmp_path)
    write_record(dataclasses.replace(record, protocol="wmean"), tmp_path)
    assert [(one.protocol, one.seed) for one in read_records(tmp_path)] == [
        ("all", None),
        ("all", 3),
        ("wmean", 3),
    ]


@pytest.mark.parametrize("broken", ["predictions", "json"])
def test_a_full_disk_leaves_the_old_record(
    record: ResultRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    path = write_record(record, tmp_path)
    before = path.read_bytes()
    real, calls = os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == (1 if broken == "predictions" else 3):
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_record(dataclasses.replace(record, sets=record.sets[:1]), tmp_path, overwrite=True)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert len(read_record(path).sets) == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda v: v.pop("fingerprint"), "field fingerprint: missing"),
        (lambda v: v.update(format_version=2), "field format_version: 2, but"),
        (lambda v: v.update(protocol="best"), "field protocol: 'best' is not one of all, mean, wmean"),
        (lambda v: v.update(seed="one"), "field seed: 'one' is not an integer"),
        (lambda v: v.update(seed=True), "field seed: True is not an integer"),
        (lambda v: v.update(sets=[]), "field sets: empty"),
        (lambda v: v.update(sets=["stsb"]), r"field sets\[0\]: 'stsb' is not an object"),
        (
            lambda v: v["sets"][1].update(pairs=29),
            r"field sets\[1\].pairs: .* no 29 numbers stsb.similarities",
        ),
        (lambda v: v["sets"][0]["scores"].pop("all"), r"field sets\[0\].scores.all: missing"),
        (
            lambda v: v["sets"][0]["scores"]["all"].update(spearman=101),
            "spearman: 101.0 is no correlation x 100",
        ),
        (lambda v: v["sets"][0]["scores"].update(median={}), "scores.median: 'median' is not one of"),
        (lambda v: v["seconds"].update(encode="fast"), "field seconds.encode: 'fast' is not a number"),
        (
            lambda v: v["predictions"].update(file="../x.safetensors"),
            "field predictions.file: .*beside the record",
        ),
        (lambda v: v["predictions"].update(file="gone.safetensors"), "field predictions.file: there is no"),
        (lambda v: v["predictions"].update(sha256="0" * 64), "field predictions.sha256: .*was changed"),
    ],
)
def test_damage_is_named_by_file_and_field(
    record: ResultRecord, tmp_path: Path, change: Callable[[dict[str, Any]], Any], problem: str
) -> None:
    path = write_record(record, tmp_path)
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=problem) as caught:
        read_records(tmp_path)
    assert str(path) in str(caught.value)


def test_changed_predictions_and_broken_json_are_refused(record: ResultRecord, tmp_path: Path) -> None:
    path = write_record(record, tmp_path)
    predictions = next(tmp_path.glob("*.safetensors"))
    content = predictions.read_bytes()
    predictions.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="was changed after"):
        read_record(path)
    path.write_text(path.read_text()[:100])
    with pytest.raises(InputError, match="is not valid JSON"):
        read_record(path)


def test_folders_without_records(tmp_path: Path, write_file: Callable[[str, str], Path]) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_records(tmp_path / "none")
    with pytest.raises(InputError, match="holds no record"):
        read_records(tmp_path)
    write_file("taken", "")
    with pytest.raises(OSError, match="taken"):
        prepare_folder(tmp_path / "taken" / "records")


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
    assert "/" not in slug(name)
