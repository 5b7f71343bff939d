"""`sentemb report` gathers what folders hold; README is what it makes of the committed records."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sentemb.errors import InputError
from sentemb.evaluation.measures import measure
from sentemb.evaluation.record import write_record
from sentemb.evaluation.schema import Score
from sentemb.evaluation.suites import get_suite
from sentemb.report.build import build_report, put_into
from sentemb.report.page import Section
from tests.records import data_set, make_record

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("raw", "tuned-seed-1", "tuned-seed-2", "<b>odd_&%|")
GOLD = np.linspace(0, 5, 40)
LABELS = """
[raw]
base = "mini <1>"
method = "raw"
pooling = "cls"

[tuned]
base = "mini <1>"
method = "SG-OPT"
pooling = "cls"
"""


def write(
    folder: Path,
    suite: str,
    model: str,
    predictions: Mapping[str, np.ndarray],
    gold: np.ndarray,
    *,
    protocol: str | None = None,
    seed: int | None = None,
) -> None:
    """Write a record whose scores follow from its predictions."""
    known = get_suite(suite)
    sets = [data_set(name, len(gold)) for name in predictions]
    scores = [
        Score(
            dataset=name,
            metric=known.measure,
            protocol=rule,
            value=100 * measure(known.measure, values, gold),
        )
        for name, values in predictions.items()
        for rule in (("all", "wmean") if suite != "transfer" else ("all",))
    ]
    record = make_record(suite, model, sets, scores, protocol=protocol or known.protocol, seed=seed)
    write_record(record, predictions, {one.name: gold for one in sets}, folder)


def similarities(place: int) -> np.ndarray:
    """The better, the smaller the place."""
    return GOLD / 5 + (1 + place) * np.random.default_rng(place).normal(scale=0.3, size=len(GOLD))


def write_geometry(folder: Path) -> None:
    values = {"alignment": 0.2, "uniformity": -2.0, "anisotropy": 0.1, "effective_rank": 1.5}
    scores = [
        Score(dataset="stsb", metric=name, value=value, low=value - 1, high=value + 1)
        for name, value in values.items()
    ]
    details = {"confidence": 0.95, "sentences": 80, "spectrum": [2.0, 1.0]}
    fields = {"dimension": 2, "protocol": "stsb-test", "details": details}
    write_record(make_record("geometry", "raw", [data_set("stsb", 40)], scores, **fields), {}, {}, folder)


def write_layers(folder: Path) -> None:
    scores = [
        Score(dataset="stsb", metric="spearman", protocol=f"{pooling}, layer {layer}", value=value)
        for pooling, layer, value in (("cls", 1, 50.0), ("mean", 0, 40.0), ("mean", 1, 45.0))
    ]
    record = make_record("layers", "raw", [data_set("stsb", 40)], scores, protocol="test")
    write_record(record, {}, {}, folder)


def write_runs(folder: Path) -> Path:
    for seed, score in ((1, 0.5), (2, 0.6)):
        run_folder = folder / "my-run" / f"seed-{seed}" / "run"
        run_folder.mkdir(parents=True)
        (run_folder / "config.toml").write_text('dev = "stsb"\n')
        lines = [{"step": step, "eval_dev_spearman_cosine": score + step / 1000} for step in (0, 50, 100)]
        (run_folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "my-run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of every kind."""
    made = tmp_path_factory.mktemp("records")
    for place, name in enumerate(NAMES):
        seed = int(name[-1]) if "seed" in name else None
        write(made, "sts", name, {one: similarities(place) for one in ("sts12", "stsb")}, GOLD, seed=seed)
        answers = np.where(np.arange(40) < 5 * place, 1 - np.arange(40) % 2, np.arange(40) % 2)
        write(made, "transfer", name, {"cr": answers}, np.arange(40) % 2, protocol="simcse", seed=1111)
    for place, name in enumerate(("raw", "tuned-seed-1")):
        sets = {f"sts17-{one}": similarities(place) for one in ("en-en", "es-es")}
        write(made, "multilingual", name, sets, GOLD, seed=place or None)
    write_geometry(made)
    (made / "labels.toml").write_text(LABELS)
    write_layers(made)
    write_runs(made)
    return made


def sections_of(folder: Path, **options) -> dict[str, Section]:
    return {one.name: one for one in build_report([folder], **options).sections}


def test_every_kind_of_record_has_its_section(folder: Path) -> None:
    found = sections_of(folder, runs=[folder / "my-run"], baselines=["raw"], figures=True)
    assert list(found) == [
        *("significance", "sts", "multilingual", "transfer", "comparisons", "geometry", "layers", "training")
    ]
    (sts,) = found["sts"].tables
    assert sts.groups == ("mini <1>", "mini <1>", "")
    assert [row[:3] for row in sts.rows] == [
        ("raw", "cls", "–"),
        ("SG-OPT", "cls", "2"),
        ("<b>odd_&%|", "–", "–"),
    ]
    assert [len(found[name].charts) for name in ("geometry", "layers", "training")] == [2, 1, 1]
    (recorded,) = found["geometry"].tables
    assert "intervals" in recorded.notes[0] and recorded.rows[0][-1].endswith("of 2")
    assert found["multilingual"].tables[0].title.startswith("STS, Pearson x 100")
    assert "layer 1, cls pooling" in next(iter(found["layers"].charts))


def test_comparisons_are_told_in_words(folder: Path) -> None:
    section = sections_of(folder, baselines=["raw"])["comparisons"]
    assert len(section.sentences) == len(section.tables) == 2 + 1 + 2  # the seeds of a system are one
    assert any("SG-OPT of mini <1> (cls)" in sentence for sentence in section.sentences)
    assert all("95 % interval" in sentence and "p " in sentence for sentence in section.sentences)
    assert not set(section.sentences) & {note for table in section.tables for note in table.notes}


def test_a_row_says_whether_a_system_is_better(folder: Path) -> None:
    found = sections_of(folder, baselines=["raw"])
    (sts, languages, transfers), details = found["significance"].tables, found["comparisons"].tables
    assert sts.title.startswith("Difference from raw of mini <1> (cls) (") and "the average" in sts.title
    assert [row[:2] for row in sts.rows] == [("<b>odd_&%|", "1"), ("SG-OPT of mini <1> (cls)", "2")]
    assert [row[3:7] for row in sts.rows] == [table.rows[-1][3:7] for table in details[:2]]
    assert "accuracy" in transfers.header and len(languages.rows) == 1
    assert [len(plot.estimates) for plot in found["significance"].forests] == [2, 1, 2]


def test_the_verdict_names_the_best_or_says_that_nothing_is_better(folder: Path) -> None:
    (against_raw, *_) = build_report([folder], baselines=["raw"]).verdicts
    assert against_raw.startswith(
        "STS: none of the 2 other systems is significantly better than raw of mini <1>"
    )
    (against_odd, *_) = build_report([folder], baselines=["<b>odd_&%|"]).verdicts
    assert against_odd.startswith("STS: raw of mini <1> (cls) is better than <b>odd_&%| by ")


def test_bases_are_compared_among_themselves(folder: Path, tmp_path: Path) -> None:
    for path in folder.glob("*.sts.*"):
        shutil.copy(path, tmp_path)
    shutil.copytree(folder / "gold", tmp_path / "gold")
    labels = LABELS.replace('[tuned]\nbase = "mini <1>"', '[tuned]\nbase = "other"')
    (tmp_path / "labels.toml").write_text(labels)
    assert labels != LABELS
    names = [name for name in NAMES if name not in ("raw", "tuned-seed-1", "tuned-seed-2")]
    found = sections_of(tmp_path, baselines=["raw", "tuned"])
    assert [[row[0] for row in table.rows] for table in found["significance"].tables] == [names, names]
    with pytest.raises(InputError, match="no record of none"):
        build_report([tmp_path], baselines=["none"])
    for path in tmp_path.glob("*odd*"):
        path.unlink()
    with pytest.raises(InputError, match="no other system to compare with raw, tuned"):
        build_report([tmp_path], baselines=["raw", "tuned"])


def test_the_readme_is_current(tmp_path: Path) -> None:
    """If not: sentemb report eval/results --into README.md."""
    built = build_report([ROOT / "eval" / "results"])
    texts = {one.name: one.markdown() for one in built.sections}
    copied = tmp_path / "README.md"
    copied.write_bytes((ROOT / "README.md").read_bytes())
    assert put_into([copied], texts) == {copied: ["summary"]}
    assert copied.read_bytes() == (ROOT / "README.md").read_bytes()


def test_drawing_needs_no_torch() -> None:
    program = "import sys, sentemb.report.build, sentemb.report.figures; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
