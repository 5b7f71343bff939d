"""Training of classifiers: every recipe learns, resumes exactly, and refuses what cannot be learnt."""

from __future__ import annotations

import json
import tomllib
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentemb.classification import Classifier, ClassifierRun, fit_classifier
from sentemb.classification.classifier import ClassifierEvaluator, compute, score_classifier
from sentemb.classification.fit import fit_probe, start_from_pooler
from sentemb.data.labelled import LabelledTexts
from sentemb.errors import InputError
from sentemb.modules import LinearHead, load
from sentemb.training import Interrupted, recipes_of
from sentemb.training.config import ProbeOptions
from tests.classification.toy import toy_config, toy_set
from tests.training.training_helpers import stop_at


@pytest.mark.parametrize(
    "recipe", [name for name in recipes_of("classification") if name not in ("ce", "ce-views")]
)
def test_a_separable_set_is_learnt(recipe: str, small_bert: Path, tmp_path: Path) -> None:
    dev = toy_set(24, seed=1, split="dev")
    done = fit_classifier(toy_config(recipe, small_bert, tmp_path / "run"), toy_set(), dev)
    assert done.run.dev_score is not None
    assert done.run.dev_score > 0.7  # chance is 0.33
    assert score_classifier(done.classifier, dev)["accuracy"] == pytest.approx(done.run.dev_score)
    loaded = Classifier.load(done.run.output, device="cpu")
    assert np.array_equal(loaded.logits(dev.texts), done.classifier.logits(dev.texts))


def test_a_run_says_everything_about_itself(trained: ClassifierRun) -> None:
    folder = trained.run.output
    record = json.loads((folder / "run" / "record.json").read_text())
    assert record["status"] == "finished"
    assert record["data"]["train"]["classes"] == {"animal": 16, "person": 16, "thing": 16}
    assert record["dev"]["metric"] == "accuracy"
    assert record["dev"]["evaluations"] == 3
    assert record["head"]["kind"] == "linear"
    entries = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    scores = {"accuracy", "macro_f1", "matthews"}
    assert any({f"eval_validation_{name}" for name in scores} <= entry.keys() for entry in entries)
    settings = tomllib.loads((folder / "run" / "config.toml").read_text())
    assert settings["head_options"] == {"dropout": 0.1}
    assert "Classifier.load" in (folder / "README.md").read_text()


@pytest.mark.parametrize("recipe", ["lacon-fusion", "supcl-seq"])
def test_an_interrupted_run_resumes_to_the_same_weights(
    recipe: str, small_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(name: str, **options: Any) -> ClassifierRun:
        config = toy_config(recipe, small_bert, tmp_path / name, epochs=3, eval_steps=4, use_last=True)
        return fit_classifier(config, toy_set(), toy_set(24, seed=1, split="dev"), **options)

    whole = fit("whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 6)
        with pytest.raises(Interrupted):
            fit("parts")
    with pytest.raises(InputError, match="add --resume"):
        fit("parts")
    parts = fit("parts", resume=True)
    for name in ("encoder", "head"):
        first = getattr(whole.classifier, name).state_dict()
        second = getattr(parts.classifier, name).state_dict()
        assert all(torch.equal(first[key], second[key]) for key in first), name
    assert whole.run.dev_score == parts.run.dev_score


@pytest.mark.parametrize("recipe", ["lacon", "supcl-seq"])
def test_a_run_in_memory_ends_with_the_weights_of_one_with_a_folder(
    recipe: str, small_bert: Path, tmp_path: Path
) -> None:
    # A learning rate with which the last weights are not the best.
    runs = [
        fit_classifier(
            toy_config(recipe, small_bert, tmp_path / name, epochs=6, eval_steps=2, learning_rate=0.05),
            toy_set(),
            toy_set(24, seed=1, split="dev"),
            in_memory=name == "memory",
        )
        for name in ("folder", "memory")
    ]
    assert replace(runs[0].run, output=Path(), sentences_per_second=0.0) == replace(
        runs[1].run, output=Path(), sentences_per_second=0.0
    )
    texts = toy_set(30, seed=2).texts
    assert np.array_equal(*(one.classifier.logits(texts) for one in runs))
    assert not [path for path in (tmp_path / "memory").rglob("*") if path.is_file()]


def test_the_head_begins_as_the_pooler_of_the_checkpoint(small_bert: Path) -> None:
    encoder: SentenceTransformer = load(small_bert, pooling="cls-mlp", device="cpu")
    fresh = encoder[-1].linear.weight.clone()
    pooler = encoder[0].model.pooler.dense
    assert not torch.equal(fresh, pooler.weight)
    start_from_pooler(encoder)
    assert torch.equal(encoder[-1].linear.weight, pooler.weight)
    torch.nn.init.ones_(encoder[-1].linear.bias)  # as if tuned
    tuned = encoder[-1].linear.weight.data.add_(1).clone()
    start_from_pooler(encoder)
    assert torch.equal(encoder[-1].linear.weight, tuned)
    bare = load(small_bert, pooling="cls-mlp", device="cpu")
    torch.nn.init.zeros_(bare[0].model.pooler.dense.weight)
    start_from_pooler(bare)
    assert bare[-1].linear.weight.any()


TOY = toy_set(12)
NAMES = TOY.label_names


@pytest.mark.parametrize(
    ("train", "validation", "message"),
    [
        (LabelledTexts("s", "train", ["a"], None, np.array([0.5]), ()), None, "are scores"),
        (LabelledTexts("s", "train", ["a"], None, np.array([0]), ("only",)), None, "all rows .* label only"),
        (TOY.select([0, 3]), None, "all rows .* label animal"),
        (TOY, toy_set(12, pairs=True), "one has pairs"),
        (TOY, replace(TOY, label_names=(*NAMES[:2], "new")), "do not occur in toy train: new"),
        (TOY, replace(TOY, label_names=NAMES[::-1]), "numbers its classes differently"),
    ],
)
def test_data_that_cannot_be_learnt_is_one_clear_error(
    train: LabelledTexts, validation: LabelledTexts | None, message: str, small_bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        fit_classifier(toy_config("ce", small_bert, tmp_path / "run"), train, validation)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        ("ce", {"metric": "f1"}, "f1 is defined for two classes"),
        ("ce", {"loss_options": {"weight": 1}}, "unknown option of CrossEntropyLoss: weight"),
        ("ce", {"head": "label", "head_options": {"depth": 1}}, "is invalid"),
        ("ce", {"head_options": {"classes": 3}}, "head_options cannot set classes"),
        ("ce", {"seeds": [1, 2]}, "a run has one seed"),
        ("ce", {"probe_options": {"epochs": 3}}, "so probe_options .of a second stage. are not used"),
        ("ce", {"self_supervised": True}, "CrossEntropyLoss needs labels"),
        ("supcl-seq", {"head": "lsan"}, "does not train a head"),
        ("supcl-seq", {"probe_options": {"epochs": 0}}, "probe_options.epochs is 0; it must be"),
        ("supcl-seq", {"probe_options": {"epoch": 3}}, "option of the second stage: epoch; did you mean"),
    ],
)
def test_options_that_do_not_fit_are_one_clear_error(
    recipe: str, overrides: dict[str, Any], message: str, small_bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        fit_classifier(toy_config(recipe, small_bert, tmp_path / "run", **overrides), TOY, TOY)
    assert not (tmp_path / "run").exists()


def test_without_labels_only_the_second_stage_knows_them(small_bert: Path, tmp_path: Path) -> None:
    changed = toy_set(24)
    changed = replace(changed, labels=changed.labels[::-1].copy())
    encoders = [
        fit_classifier(
            toy_config("supcl-seq-self", small_bert, tmp_path / str(number), epochs=1), data
        ).classifier.encoder.state_dict()
        for number, data in enumerate((toy_set(24), changed))
    ]
    assert all(torch.equal(encoders[0][name], encoders[1][name]) for name in encoders[0])


def test_a_class_without_examples_can_still_be_scored(
    small_bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = toy_set(24)
    train = whole.select(np.flatnonzero(whole.labels < 2))
    done = fit_classifier(
        toy_config("lacon", small_bert, tmp_path / "run", epochs=1), train, toy_set(24, seed=1)
    )
    assert "does not have examples of the class thing" in caplog.text
    assert done.classifier.labels == whole.label_names
    assert done.classifier.logits(["red apple"]).shape == (1, 3)


def test_weights_that_diverge_are_named_with_the_step(trained: ClassifierRun) -> None:
    head = deepcopy(trained.classifier.head)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.fill_(float("inf"))
    evaluator = ClassifierEvaluator(head, toy_set(24, seed=1, split="dev"))
    with pytest.raises(InputError, match="gives NaN or infinity after step 7; lower the learning rate"):
        evaluator(trained.classifier.encoder, steps=7)


def two_clouds(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    labels = torch.arange(rows) % 2
    centres = torch.zeros(2, 64)
    centres[0, :32], centres[1, 32:] = 1, 1
    return torch.tanh(centres[labels] + 0.5 * torch.randn(rows, 64)), labels


def test_twenty_rows_a_class_are_enough() -> None:
    vectors, labels = two_clouds(40)
    losses = {}
    for min_steps in (0, ProbeOptions().min_steps):
        torch.manual_seed(1)
        head = LinearHead(64, 2)
        options = ProbeOptions(min_steps=min_steps)
        fit_probe(head, lambda: vectors, labels, options=options, score=None)
        head.eval()
        logits = head({"sentence_embedding": vectors}).detach()
        losses[min_steps] = float(torch.nn.functional.cross_entropy(logits, labels))
    assert losses[0] > 0.5  # next to ln 2: ten steps, all of them warm-up once
    assert losses[390] < 0.1


def test_the_warm_up_is_at_most_a_tenth_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    step = torch.optim.AdamW.step

    def look(self: torch.optim.AdamW, *arguments: Any) -> Any:
        seen.append(self.param_groups[0]["lr"])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", look)
    vectors, labels = two_clouds(32)
    for options, peak in ((ProbeOptions(min_steps=100), 10), (ProbeOptions(min_steps=1000), 50)):
        seen.clear()
        fit_probe(LinearHead(64, 2), lambda: vectors, labels, options=options, score=None)
        assert seen.index(max(seen)) == peak
        assert max(seen) == options.learning_rate


def test_the_head_is_evaluated_once_an_epoch_and_the_first_best_is_kept() -> None:
    vectors, labels = two_clouds(40)
    head = LinearHead(64, 2)
    kept: list[torch.Tensor] = []
    scores = iter([0.5, 0.9, 0.9, 0.2, 0.1])

    def score() -> float:
        kept.append(head.linear.weight.detach().clone())
        return next(scores)

    scored = fit_probe(head, lambda: vectors, labels, options=ProbeOptions(), score=score)
    assert scored == [0.5, 0.9, 0.9, 0.2, 0.1]
    assert torch.equal(head.linear.weight, kept[1])


@pytest.mark.parametrize("dropout", [False, True])
def test_the_encoder_runs_once_unless_its_dropout_is_on(dropout: bool) -> None:
    vectors, labels = two_clouds(64)
    calls = 0

    def count() -> torch.Tensor:
        nonlocal calls
        calls += 1
        return vectors

    options = ProbeOptions(epochs=3, min_steps=0, encoder_dropout=dropout)
    fit_probe(LinearHead(64, 2), count, labels, options=options, score=None)
    assert calls == (3 if dropout else 1)


def test_dropout_is_on_only_when_asked_for(small_bert: Path) -> None:
    encoder = load(small_bert, pooling="cls", device="cpu").train()
    encoder[1].eval()

    def vectors(*, dropout: bool) -> Any:
        return compute(
            encoder,
            ["cat dog", "cat dog"],
            lambda output: output["sentence_embedding"],
            max_length=8,
            dropout=dropout,
        )

    assert np.array_equal(*vectors(dropout=False))
    assert not np.array_equal(*vectors(dropout=True))
    assert encoder[0].training
    assert not encoder[1].training
