"""Whole runs on a tiny BERT: exact resume, going on from a base, snapshots, and mistakes from the shell."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from sentemb.errors import InputError
from sentemb.pretraining import PretrainConfig, pretrain, save_model
from sentemb.pretraining.model import load_base
from sentemb.pretraining.recorder import latest_checkpoint
from sentemb.pretraining.tokenizer import load_tokenizer

PROGRAM = Path(__file__).resolve().parents[2] / "training" / "pretrain_mlm.py"


@pytest.fixture
def config(corpus_file: Path, tmp_path: Path, tiny_bert: Path) -> PretrainConfig:
    return PretrainConfig(
        corpus=(corpus_file,),
        output=tmp_path / "run",
        base=str(tiny_bert),
        length=16,
        batch_size=4,
        dropout=0.1,
        max_steps=6,
        log_steps=2,
        validation_share=0.1,
        precision="float32",
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("layout", ["packed", "documents"])
def test_an_interrupted_run_ends_as_the_uninterrupted(
    config: PretrainConfig, tmp_path: Path, layout: Any
) -> None:
    config = replace(config, layout=layout)
    whole = pretrain(config)
    # Interrupted in the step after a checkpoint, or told to stop, as `kill` does.
    broken = replace(config, output=tmp_path / "broken", save_minutes=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        from sentemb.pretraining import trainer

        plain, calls = trainer.masked_loss, []

        def failing(model: Any, batch: Any) -> torch.Tensor:
            if model.training:
                calls.append(1)
            if len(calls) == 3 and layout == "documents":
                os.kill(os.getpid(), signal.SIGTERM)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return plain(model, batch)

        patch.setattr(trainer, "masked_loss", failing)
        if layout == "documents":
            assert pretrain(broken) is None
        else:
            with pytest.raises(KeyboardInterrupt):
                pretrain(broken)
    found = latest_checkpoint(broken.output / "checkpoints")
    assert found is not None
    assert found[0].name == "checkpoint-3"
    (broken.output / "checkpoints" / "checkpoint-9").mkdir()  # what a kill during a save leaves behind
    resumed = pretrain(replace(broken, resume=True))
    first, second = weights(whole), weights(resumed)
    assert all(torch.equal(first[name], second[name]) for name in first)
    losses = [[(m["step"], m["loss"]) for m in metrics(c.output) if "loss" in m] for c in (config, broken)]
    assert losses[0][-1] == losses[1][-1]


def test_going_on_from_a_base_learns_its_text_and_keeps_its_shape(config: PretrainConfig) -> None:
    folder = pretrain(replace(config, max_steps=60, learning_rate=3e-3, save_minutes=0.02))
    lines = metrics(config.output)
    losses, validation = ([m[name] for m in lines if name in m] for name in ("loss", "eval_loss"))
    assert validation[-1] < losses[0] - 0.2
    base, model = load_base(config.base), load_base(folder)
    assert model.config.num_hidden_layers == 3
    assert model.config.hidden_dropout_prob == base.config.hidden_dropout_prob == 0.1
    encoder = SentenceTransformer(str(folder), device="cpu")
    assert encoder.encode(["a cat sat", "two birds fly"]).shape == (2, 16)
    record = json.loads((config.output / "record.json").read_text())
    assert record["steps"] == 60
    assert record["throughput"]["tokens"] == 60 * 4 * 16
    assert 0 < record["throughput"]["share_of_matrix_products"] < 1
    with pytest.raises(InputError, match="is finished"):
        pretrain(replace(config, max_steps=60, learning_rate=3e-3, resume=True))
    with pytest.raises(InputError, match="already exists"):
        pretrain(config)


def test_a_new_model_ends_by_the_clock_with_a_rate_near_zero(config: PretrainConfig) -> None:
    scratch = replace(
        config, base=None, vocabulary=300, layers=1, width=8, heads=2, inner_width=8, positions=32,
        max_steps=None, max_minutes=0.05, log_steps=1,
    )  # fmt: skip
    folder = pretrain(scratch)
    lines = [m for m in metrics(config.output) if "learning_rate" in m]
    assert lines[-1]["seconds"] >= 2
    assert lines[-1]["learning_rate"] < 0.3 * max(line["learning_rate"] for line in lines)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.unk_token_id not in tokenizer("the cat sat")["input_ids"][1:3]


def test_half_precision_halves_the_file_and_is_still_computed_in_single(
    tiny_bert: Path, tmp_path: Path
) -> None:
    model, tokenizer = load_base(tiny_bert), load_tokenizer(tiny_bert)
    full = save_model(tmp_path / "full", model, tokenizer)
    half = save_model(tmp_path / "half", model, tokenizer, half=True)
    assert {value.dtype for value in weights(half).values()} == {torch.float16}
    encoders = [SentenceTransformer(str(folder), device="cpu") for folder in (full, half)]
    vectors = [encoder.encode(["a cat sat on the mat"], convert_to_tensor=True) for encoder in encoders]
    assert vectors[1].dtype is torch.float32
    torch.testing.assert_close(vectors[0], vectors[1], atol=2e-3, rtol=0)


def test_settings_that_change_the_run_are_not_resumed(config: PretrainConfig) -> None:
    pretrain(replace(config, max_steps=1))
    (config.output / "model").rename(config.output / "aside")
    with pytest.raises(InputError, match=r"--masking-rate was 0\.15 when the run began and is 0\.3 now"):
        pretrain(replace(config, masking_rate=0.3, resume=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, "--learning-rate 0.0 is not positive"),
        ({"warmup": 1.5}, "--warmup 1.5 is out of range"),
        ({"validation_share": 0.0}, "--validation-share"),
        ({"base": None, "stack_to": 6}, "--stack-to without --base"),
    ],
)
def test_impossible_settings_are_refused(
    config: PretrainConfig, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        replace(config, **change)


def test_a_part_without_documents_is_named(config: PretrainConfig) -> None:
    with pytest.raises(InputError, match="no document for validation"):
        pretrain(replace(config, validation_share=1e-9))


def test_mistakes_leave_one_line_and_exit_code_2(
    tmp_path: Path, corpus_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    cases = [
        (("--corpus", tmp_path / "absent.txt"), "no such file"),
        (("--corpus", empty), "holds no text"),
        (("--corpus", corpus_file, "--base", tmp_path), "holds no tokenizer"),
        (("--corpus", corpus_file, "--validation-share", 1e-9), "no document for validation"),
    ]
    for arguments, message in cases:
        common = ("--output", tmp_path / "run", "--max-steps", 1)
        monkeypatch.setattr(sys, "argv", [PROGRAM.name, *map(str, (*arguments, *common))])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(PROGRAM), run_name="__main__")
        assert left.value.code == 2
        last = capsys.readouterr().err.strip().splitlines()[-1]
        assert last.startswith("error: ")
        assert message in last
        assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(
        sys, "argv", [PROGRAM.name, "--corpus", str(empty), "--output", str(tmp_path / "run")]
    )
    with pytest.raises(SystemExit):
        runpy.run_path(str(PROGRAM), run_name="__main__")
    assert not list((tmp_path / "run").iterdir())
