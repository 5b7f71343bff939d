"""Whole runs on a tiny BERT: exact resumption, continuing from a base, wall time, and user errors."""

from __future__ import annotations

import itertools
import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from sentemb.errors import InputError
from sentemb.pretraining import PretrainConfig, pretrain
from sentemb.pretraining import run as trainer_module
from sentemb.pretraining.model import load_base
from sentemb.pretraining.run import Budget
from sentemb.pretraining.tokens import load_tokenizer
from sentemb.training import Interrupted, resolve
from sentemb.training.checkpoints import checkpoints
from tests.programs import run_program
from tests.training.training_helpers import stop_at


@pytest.fixture
def config(corpus_file: Path, tmp_path: Path, tiny_bert: Path) -> PretrainConfig:
    values = {
        "corpus": [str(corpus_file)],
        "output": str(tmp_path / "run"),
        "base": str(tiny_bert),
        "length": 16,
        "batch_size": 4,
        "dropout": 0.1,
        "max_steps": 6,
        "log_steps": 2,
        "validation_share": 0.1,
        "precision": "float32",
    }
    made: PretrainConfig = resolve("mlm", overrides=values)
    return made


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_an_interrupted_run_ends_as_the_uninterrupted(
    config: PretrainConfig, tmp_path: Path, how: str
) -> None:
    whole = pretrain(config)
    # Killed in the step after a checkpoint, or told to stop, as `kill` does.
    broken = config.replace(output=str(tmp_path / "broken"), save_minutes=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        if how == "killed":
            stop_at(patch, 4, None)
            with pytest.raises(KeyboardInterrupt):
                pretrain(broken)
        else:
            stop_at(patch, 3, signal.SIGTERM)
            with pytest.raises(Interrupted, match="stopped at step 3"):
                pretrain(broken)
    assert checkpoints(tmp_path / "broken" / "run" / "checkpoints")[-1][0] == 3
    assert not list(tmp_path.rglob("*.bin"))  # no pickled weights
    with pytest.raises(InputError, match="add --resume"):
        pretrain(broken)
    resumed = pretrain(broken, resume=True)
    first, second = weights(whole.output), weights(resumed.output)
    assert all(torch.equal(first[name], second[name]) for name in first)
    losses = [
        [(m["step"], m["loss"]) for m in metrics(run.output) if "loss" in m] for run in (whole, resumed)
    ]
    assert losses[0][-1] == losses[1][-1]


def test_a_base_learns_the_text_and_keeps_its_shape(config: PretrainConfig) -> None:
    run = pretrain(config.replace(max_steps=60, learning_rate=3e-3, save_minutes=0.02))
    lines = metrics(run.output)
    losses, validation = ([m[name] for m in lines if name in m] for name in ("loss", "eval_loss"))
    assert validation[-1] < losses[0] - 0.2
    base, model = load_base(config.base or ""), load_base(run.output)
    assert model.config.num_hidden_layers == 3
    assert model.config.hidden_dropout_prob == base.config.hidden_dropout_prob == 0.1
    encoder = SentenceTransformer(str(run.output), device="cpu")
    assert encoder.encode(["a cat sat", "two birds fly"]).shape == (2, 16)
    record = json.loads((run.output / "run" / "record.json").read_text())
    assert (record["status"], record["steps"], record["validation_loss"]) == ("finished", 60, validation[-1])
    assert record["throughput"]["tokens"] == 60 * 4 * 16
    assert record["throughput"]["tokens_per_second"] > 0
    with pytest.raises(InputError, match="contains a finished run"):
        pretrain(config, resume=True)


def test_the_card_says_what_was_trained_on_what(config: PretrainConfig, tmp_path: Path) -> None:
    run = pretrain(config.replace(masking_rate=0.3, max_steps=2))
    card = (run.output / "README.md").read_text()
    record = json.loads((run.output / "run" / "record.json").read_text())
    ((file, checksum),) = record["data"]["files"].items()
    text = f"{file} (SHA-256 {checksum[:16]}...): {record['data']['documents']} documents"
    loss = f"{record['validation_loss']:.4f}, loss on masked tokens of held-out documents"
    rows = {"Training text": text, "Recipe": "mlm (paper), with changed batch size", "Validation loss": loss}
    assert all(f"\n| {title} | {value} |\n" in card for title, value in rows.items())
    assert {"library_name: transformers", "pipeline_tag: fill-mask"} < {*card.splitlines()}
    assert str(tmp_path) not in card
    loading = card.split("```python\n")[1].split("```")[0].replace('"run"', repr(str(run.output)))
    names: dict[str, Any] = {}
    exec(loading, names)
    assert names["model"].config.num_hidden_layers == 3


def test_a_new_model_ends_by_the_clock_with_a_rate_near_zero(
    config: PretrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(step=0.01)  # it advances on every read
    monkeypatch.setattr(trainer_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    scratch = config.replace(
        base=None, vocabulary=300, layers=1, width=8, heads=2, inner_width=8, positions=32,
        max_steps=None, max_minutes=0.02, log_steps=1,
    )  # fmt: skip
    folder = pretrain(scratch).output
    lines = [m for m in metrics(folder) if "learning_rate" in m]
    assert lines[-1]["seconds"] >= 1
    assert lines[-1]["learning_rate"] < 0.3 * max(line["learning_rate"] for line in lines)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.unk_token_id not in tokenizer("the cat sat")["input_ids"][1:3]


def test_only_the_end_of_a_run_may_change_when_it_is_resumed(
    config: PretrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, 2, signal.SIGTERM)
        with pytest.raises(Interrupted):
            pretrain(config)
    with pytest.raises(InputError, match="with other values of masking_rate"):
        pretrain(config.replace(masking_rate=0.3), resume=True)
    assert pretrain(config.replace(max_steps=4, save_minutes=9.0), resume=True).steps == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": ["absent.txt"]}, "no such file"),
        ({"base": "/dev"}, "does not contain a tokenizer"),
        ({"validation_share": 1e-9}, "none is left for validation"),
        ({"length": 128}, "length 128 is above the limit of the model, 64 positions"),
        ({"max_steps": None}, "the length of the run is not limited"),
    ],
)
def test_an_error_leaves_the_folder_as_it_was(
    config: PretrainConfig, change: dict[str, Any], message: str
) -> None:
    for present in (False, True):
        folder = Path(config.output)
        if present:
            folder.mkdir()
        with pytest.raises(InputError, match=message):
            pretrain(config.replace(**change))
        assert folder.exists() == present
        assert not present or not list(folder.iterdir())


def test_weights_that_give_no_number_are_not_published(config: PretrainConfig) -> None:
    with pytest.raises(InputError, match="the validation loss is not finite at step 1"):
        pretrain(config.replace(learning_rate=1e18, warmup=0.0, max_steps=1))
    assert not (Path(config.output) / "model.safetensors").exists()


def budget_of(**settings: Any) -> Budget:
    return Budget(resolve("mlm", overrides={"corpus": ["a.txt"], "output": "o", **settings}))


def test_steps_or_the_clock_end_a_run_whichever_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert budget_of(max_steps=10).progress(4) == pytest.approx(0.4)
    budget = budget_of(max_steps=10, max_minutes=2)
    budget.elapsed = 30  # of earlier parts of the run
    assert budget.progress(0) == pytest.approx(0.25)
    budget.on_train_begin()
    now[0] += 60
    assert budget.seconds() == 90
    assert budget.progress(2) == pytest.approx(0.75)
    assert budget.progress(9) == pytest.approx(0.9)
    now[0] += 1000
    assert budget.progress(2) == 1.0


def test_the_rate_rises_then_falls_to_zero() -> None:
    budget = budget_of(max_steps=100, warmup=0.1)
    factors = [budget.learning_rate(step) for step in range(101)]
    assert (factors[0], factors[10], factors[100]) == (0.0, 1.0, 0.0)
    assert factors[:11] == sorted(factors[:11])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert budget_of(max_steps=10, warmup=0.0).learning_rate(0) == 1.0


PROGRAM = Path(__file__).resolve().parents[2] / "training" / "pretrain_mlm.py"


def test_a_base_is_adapted_to_a_text(
    corpus_file: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ("--corpus", corpus_file, "--corpus", corpus_file, "--output", tmp_path / "run")
    sizes = "--length 16 --validation-share 0.1 --precision float32 --max-steps 1 --set batch_size=4".split()
    run_program(monkeypatch, PROGRAM, *map(str, files), *sizes, "--base", str(tiny_bert))
    assert SentenceTransformer(str(tmp_path / "run"), device="cpu").encode("a cat").shape == (16,)
