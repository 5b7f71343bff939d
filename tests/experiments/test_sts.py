"""Trained and frozen encoders: what has a record is not trained again, and other settings are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation.schema import Record
from sentemb.experiments import Experiment, experiment_tables, load_experiment, run_experiment, sts
from tests.training.training_helpers import make_sentences

Run = Callable[..., list[Record]]


@pytest.fixture
def make(small_bert: Path, sentences_file: Path) -> Callable[..., Experiment]:
    """A bundled experiment, two steps of a toy text long and evaluated on STS-B alone."""

    def build(name: str = "ablations", *rows: str, **changes: Any) -> Experiment:
        options = {
            "dev": "none",
            "max_steps": 2,
            "batch_size": 8,
            "max_length": 16,
            "data": str(sentences_file),
        }
        given = {"seeds": (1,), "datasets": ["stsb"], "base": str(small_bert)} | changes
        given["options"] = options | given.get("options", {})
        return load_experiment(name).replace(rows=rows or None, **given)

    return build


@pytest.fixture
def run(shared_data: Path, tmp_path: Path) -> Run:
    def start(experiment: Experiment, **options: Any) -> list[Record]:
        return run_experiment(experiment, tmp_path / "records", data_dir=shared_data, **options)

    return start


def test_rows_and_seeds_become_records_of_trained_models(
    make: Callable[..., Experiment], run: Run, small_bert: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    experiment = make("ablations", "sg-opt-tau-0.1", "sg-opt-no-head", seeds=(1, 2))
    records = run(experiment, announce=lines.append)
    names = [f"{small_bert.name}-{row}-seed-{seed}" for seed in (1, 2) for row in experiment.rows]
    assert [one.model for one in records] == names and [one.seed for one in records] == [1, 1, 2, 2]
    raw = load_encoder(small_bert, pooling="cls").fingerprint
    assert len({raw, *(one.fingerprint for one in records)}) == 5  # all were trained, none alike
    assert not list((tmp_path / "records" / "models").iterdir())
    table = experiment_tables(experiment, records)[0]
    assert [row[:2] for row in table.rows] == [("sg-opt-tau-0.1", "2"), ("sg-opt-no-head", "2")]
    assert "±" in table.rows[0][2] and [row[-1] for row in table.rows] == ["70.39", "72.78"]
    # Nothing is trained again.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    again = run(experiment, announce=lines.append)
    assert lines[-1].startswith("4 trials, 4 already finished")
    assert [one.fingerprint for one in again] == [one.fingerprint for one in records]
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    with pytest.raises(InputError, match="has other values of max_steps"):
        run(make("ablations", "sg-opt-tau-0.1", options={"max_steps": 1}))
    with pytest.raises(InputError, match="has other values of sets"):
        run(experiment.replace(datasets=["stsb", "sickr"], seeds=(1,)))
    with pytest.raises(InputError, match=r"a record of .* already"):
        run(experiment.replace(name="other", seeds=(1,)))


def test_a_setting_is_for_all_rows_but_for_what_a_row_is_about(
    make: Callable[..., Experiment], run: Run
) -> None:
    options = {"max_steps": 1, "learning_rate": 1e-4, "loss_options": {"temperature": 0.5}}
    sg, tau = (
        one.trial.options
        for one in run(make("ablations", "sg", "sg-opt-tau-0.1", options=options))
        if one.trial is not None
    )
    assert sg["learning_rate"] == tau["learning_rate"] == 1e-4
    assert (sg["loss_options"]["temperature"], tau["loss_options"]["temperature"]) == (0.5, 0.1)
    with pytest.raises(InputError, match="learning_rate"):
        run(make("ablations", "sg", options={"learning_rat": 1e-4}))
    with pytest.raises(InputError, match="did you mean sg-opt"):
        run(make("ablations", "sg-op"))


def test_a_finished_model_without_a_record_is_evaluated_not_trained(
    make: Callable[..., Experiment], run: Run, tmp_path: Path, small_bert: Path
) -> None:
    experiment, elsewhere = make("ablations", "sg"), tmp_path / "elsewhere"
    (first,) = run(experiment, work=elsewhere, keep_models=True)
    model = elsewhere / f"{small_bert.name}-sg-seed-1" / "model.safetensors"
    weights = model.stat().st_mtime_ns
    for path in (tmp_path / "records").glob("*.json"):
        path.unlink()
    (second,) = run(experiment, work=elsewhere, keep_models=True)
    assert second.fingerprint == first.fingerprint and model.stat().st_mtime_ns == weights


def test_domain_shift_trains_both_methods_on_the_same_pairs(
    make: Callable[..., Experiment], run: Run, write_file: Callable[[str, str], Path], tmp_path: Path
) -> None:
    words = "cat dog man woman birds children house park mat guitar".split()
    rows = "".join(f"the {a} sat\ta {b} ran\tneutral\n" for a in words for b in words)
    nli = write_file("nli.tsv", f"premise\thypothesis\tlabel\n{rows}")
    sample = {"sample": str(nli), "columns": ["premise", "hypothesis"], "pairs": 40}
    experiment = make("domain-shift", "sg-opt-nli", "flow-nli", data=sample)
    records = run(experiment)
    assert [one.model for one in records] == ["sg-opt-nli-seed-1", "flow-nli-seed-1"]
    assert {one.trial.options["pairs"] for one in records if one.trial} == {40}
    lines = (tmp_path / "records" / "sample-sentences.jsonl").read_text().splitlines()
    assert len(lines) == 80 and json.loads(lines[0])["text"].endswith("sat")
    assert experiment_tables(experiment, records)[0].rows[1][-1] == "STS-B 59.19, average 64.58"


def test_transforms_are_fitted_to_as_many_sentences_as_are_asked_for(
    make: Callable[..., Experiment], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[int] = []
    add = sts.add_whitening
    monkeypatch.setattr(
        sts,
        "add_whitening",
        lambda model, texts, **given: fitted.append(len(texts)) or add(model, texts, **given),
    )
    (few,) = run(make("frozen", "whitening", data={"sentences": 20}))
    assert few.trial is not None and few.trial.options["sentences"] == 20
    assert fitted == [20]
    with pytest.raises(InputError, match="has other values of sentences"):
        run(make("frozen", "whitening"))


def test_frozen_rows_share_a_pass_and_are_not_evaluated_again(
    make: Callable[..., Experiment], run: Run
) -> None:
    lines: list[str] = []
    frozen = make("frozen", "mean", "whitening", "flow", seeds=(1, 2))
    records = run(frozen, announce=lines.append)
    assert [(one.trial.method, one.seed) for one in records if one.trial] == [
        ("mean", None), ("whitening", None), ("flow", 1), ("flow", 2)
    ]  # fmt: skip
    table = experiment_tables(frozen, records)[0]
    assert [row[:2] for row in table.rows] == [("mean", "–"), ("whitening", "–"), ("flow", "2")]
    run(make("frozen", "max", "mean"), announce=lines.append)
    assert any(line.startswith("2 trials, 1 already finished") for line in lines)
    with pytest.raises(InputError, match="mena"):
        run(make("frozen", "mena"))


def test_zero_shot_is_evaluated_in_other_languages(make: Callable[..., Experiment], run: Run) -> None:
    experiment = make("zero-shot", "sg-opt", datasets=["sts17-es-es", "sts17-en-en"])
    (record,) = run(experiment)
    assert record.file_name == "sg-opt-seed-1.multilingual.wmean.seed-1.json"
    pearson, spearman = experiment_tables(experiment, [record])
    assert pearson.title.endswith("Pearson x 100") and spearman.title.endswith("Spearman x 100")
    assert pearson.rows[0][-1].startswith("Spanish 2014 82.74")
    assert f"{record.score('sts17-es-es', 'pearson', 'wmean'):.2f}" == pearson.rows[0][2]


MINE = """
import torch
from torch import nn


class Closer(nn.Module):
    def __init__(self, model: nn.Module, *, temperature: float = 0.1) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, sentence_features, labels=None):
        (column,) = sentence_features
        first, second = (self.model(dict(column))["sentence_embedding"] for _ in range(2))
        cosines = nn.functional.normalize(first) @ nn.functional.normalize(second).T
        return nn.functional.cross_entropy(cosines / self.temperature, torch.arange(len(cosines)))
"""


def test_a_loss_of_ones_own_is_a_method_like_any_recipe(
    run: Run, write_file: Callable[[str, str], Path], small_bert: Path, sentences_file: Path
) -> None:
    loss = write_file("my_losses.py", MINE)
    own = load_experiment(
        write_file(
            "mine.toml",
            f"""
title = "My loss against SimCSE"
kind = "sts"
base = "{small_bert}"
datasets = ["stsb"]
seeds = [1]
baseline = "simcse"
options = {{ data = "{sentences_file}", dev = "none", max_steps = 2, batch_size = 8, learning_rate = 1e-3 }}

[methods.simcse]
pooling = "cls"

[methods.closer]
recipe = "simcse"
pooling = "cls"
loss = "{loss}:Closer"
loss_options = {{ temperature = 0.2 }}
""",
        )
    )
    records = run(own)
    assert [one.model for one in records] == [
        f"{small_bert.name}-{name}-seed-1" for name in ("simcse", "closer")
    ]
    assert len({one.fingerprint for one in records}) == 2
    scores, differences = experiment_tables(own, records)
    assert [row[:2] for row in scores.rows] == [("simcse", "1"), ("closer", "1")]
    assert differences.rows[0][:4] == ("closer", "stsb", "full", "1")


def test_one_training_serves_several_dev_sets(
    make: Callable[..., Experiment],
    run: Run,
    small_bert: Path,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Choose what training with one dev set alone keeps."""
    texts = make_sentences(10)
    pairs = [(one, other) for one in texts[:6] for other in texts[6:]]
    for name, sign in (("near", 1), ("far", -1)):  # one's best checkpoint is the other's worst
        lines = (f"{one}\t{other}\t{sign * len({*one.split()} & {*other.split()})}" for one, other in pairs)
        (tmp_path / f"{name}.tsv").write_text("sentence1\tsentence2\tscore\n" + "\n".join(lines) + "\n")
    sets = [str(tmp_path / f"{name}.tsv") for name in ("near", "far")]
    options = {"max_steps": 4, "eval_steps": 1, "learning_rate": 1e-3}
    rows = {"sg": {}, "base": {}}
    both = make(
        "ablations",
        "sg",
        "base",
        setting="dev",
        values=sets,
        options=options,
        methods=rows,
        data={"precision": "reduced"},
    )
    trained, outputs = sts.train, []

    def counted(config: Any, **given: Any) -> Any:
        outputs.append(config.output)
        return trained(config, **given)

    monkeypatch.setattr(sts, "train", counted)
    lines: list[str] = []
    records = run(both, announce=lines.append)
    assert [one.trial and (one.trial.method, one.trial.options.get("dev")) for one in records] == [
        ("sg", sets[0]), ("sg", sets[1]), ("base", None), ("base", None)
    ]  # fmt: skip
    assert [one.seed for one in records] == [1, 1, None, None]  # the base is the same for every seed
    assert len(outputs) == 1 and not list((tmp_path / "records" / "models").iterdir())
    assert len({one.fingerprint for one in records}) == 3
    assert {one.encoder["precision_asked"] for one in records} == {"reduced"}
    for number, dev in enumerate(sets):
        (alone,) = run_experiment(
            make("ablations", "sg", options={**options, "dev": dev}),
            tmp_path / f"alone-{number}",
            data_dir=shared_data,
        )
        assert alone.fingerprint == records[number].fingerprint
