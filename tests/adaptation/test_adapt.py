"""An adaptation from documents to a folder: what it improves, what it leaves alone, what it says."""

from __future__ import annotations

import json
import logging
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_tensors
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer
from transformers import TrainerControl, TrainerState

from sentemb._compat import Pooling, Router, Transformer
from sentemb.adaptation import Adapted, adapt
from sentemb.adaptation.config import RAW, SHARES, STATIC, AdaptConfig
from sentemb.adaptation.held_out import ForgettingCheck
from sentemb.adaptation.run import AdaptSession, MinutesCallback, train_last_layers
from sentemb.compression import write_static
from sentemb.compression.config import Storage
from sentemb.data.bundled_text import bundled_sentences
from sentemb.data.documents import Document
from sentemb.errors import InputError
from sentemb.modules import load
from sentemb.training.outcome import Interrupted
from tests.conftest import build_tiny_bert
from tests.training.training_helpers import stop_at

SHORT: dict[str, Any] = {
    "max_steps": 60,
    "save_steps": 20,
    "batch_size": 32,
    "learning_rate": 5e-3,
    "max_length": 32,
    "precision": "float32",
    "teacher": "none",
}


@pytest.fixture(scope="module")
def calm_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer without dropout, which learns in fewer steps."""
    return build_tiny_bert(tmp_path_factory.mktemp("calm-bert"), dropout=0.0)


@pytest.fixture(scope="module")
def adapted(documents_file: Path, calm_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Adapted:
    return adapt(documents_file, str(calm_bert), tmp_path_factory.mktemp("adapted") / "mine", **SHORT)


def record_of(found: Adapted) -> dict[str, Any]:
    return json.loads((found.output / "run" / "record.json").read_text(encoding="utf-8"))


def config_of(found: Adapted) -> dict[str, Any]:
    return tomllib.loads((found.output / "run" / "config.toml").read_text(encoding="utf-8"))


def test_a_pretrained_base_gets_better_and_the_folder_says_so(adapted: Adapted) -> None:
    assert adapted.helped and adapted.gain is not None
    low, high = adapted.gain.ndcg.interval()
    assert 0 < low < adapted.gain.ndcg.mean < high
    changes = {kind.name: kind.ndcg[1] - kind.ndcg[0] for kind in adapted.kinds}
    assert changes["sentence"] > 10 and changes["topic"] > 0
    assert adapted.verdict().startswith("better: NDCG@10 on real queries is expected to change by +")
    model = SentenceTransformer(str(adapted.output))
    assert model.encode(["the cat sat"]).shape == (1, 16)
    card = (adapted.output / "README.md").read_text(encoding="utf-8")
    assert adapted.verdict() in card
    assert "docs.jsonl: 400, " in card
    assert str(adapted.output.parent) not in card
    record = record_of(adapted)
    assert record["status"] == "finished"
    assert record["adaptation"]["verdict"] == adapted.verdict()
    generated = {one["kind"]: one["ndcg@10"] for one in record["adaptation"]["generated"]}
    assert generated == {kind.name: [*kind.ndcg] for kind in adapted.kinds}


def test_a_base_that_is_not_helped_is_returned_as_it_was(
    documents: list[Document], adapted: Adapted, tmp_path: Path
) -> None:
    settings = SHORT | {"learning_rate": 0.0, "max_steps": 2}
    found = adapt(documents, str(adapted.output), tmp_path / "same", **settings)
    assert not found.helped and found.share == 0
    assert found.verdict().startswith("not clearly better: NDCG@10 on real queries")
    assert found.verdict().endswith("would be clear; mine is returned unchanged")
    texts = ["the cat sat on the mat", "two birds fly"]
    before, after = (SentenceTransformer(str(path)).encode(texts) for path in (adapted.output, found.output))
    assert np.array_equal(before, after)
    card = (found.output / "README.md").read_text(encoding="utf-8")
    assert "`mine`, unchanged" in card and "of the trained weights" not in card


def test_the_returned_weights_are_a_mean_of_the_base_and_the_trained_ones(
    adapted: Adapted, calm_bert: Path
) -> None:
    assert adapted.share in SHARES[RAW]
    base = load(calm_bert, pooling="mean").state_dict()
    (checkpoint,) = adapted.output.glob("run/checkpoints/checkpoint-60/model.safetensors")
    trained = load_tensors(checkpoint)
    name = "embeddings.word_embeddings.weight"
    mixed = load_tensors(adapted.output / "model.safetensors")[name]
    before, after = (
        next(own for key, own in weights.items() if key.endswith(name)) for weights in (base, trained)
    )
    torch.testing.assert_close(mixed, torch.lerp(before, after, adapted.share))


@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_a_static_model_is_adapted_too_and_keeps_its_numbers(
    documents: list[Document], storage: Storage, tiny_bert: Path, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.from_file(str(tiny_bert / "tokenizer.json"))
    weights = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), 8)).astype(np.float32)
    base = tmp_path / "static"
    steps: dict[str, Any] = {"max_steps": 150, "save_steps": 75, "batch_size": 32}
    base.mkdir()
    write_static(base, tokenizer, weights, storage=storage)
    found = adapt(documents, str(base), tmp_path / "mine", **steps)
    assert found.helped and found.share in SHARES[STATIC]
    model = SentenceTransformer(str(found.output))
    assert [type(module) for module in model] == [StaticEmbedding, Normalize]
    assert str(load_file(found.output / "model.safetensors")["embeddings"].dtype) == storage
    steps |= {"max_steps": 2, "save_steps": 2, "learning_rate": 0.0}
    again = adapt(documents, str(found.output), tmp_path / "again", **steps)
    assert not again.helped
    for file in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (again.output / file).read_bytes() == (found.output / file).read_bytes()


@pytest.mark.parametrize("taught", [False, True])
def test_an_interrupted_run_is_resumed(
    documents_file: Path,
    adapted: Adapted,
    calm_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    taught: bool,
) -> None:
    settings: dict[str, Any] = SHORT | ({"teacher": str(adapted.output)} if taught else {})
    with monkeypatch.context() as patch:
        stop_at(patch, 25)
        with pytest.raises(Interrupted, match="stopped at step 25"):
            adapt(documents_file, str(calm_bert), tmp_path / "again", **settings)
    assert not (tmp_path / "again" / "modules.json").exists()
    resumed = adapt(documents_file, str(calm_bert), tmp_path / "again", resume=True, **settings)
    assert resumed.helped and not list(resumed.output.glob("run/teacher"))
    loss = "InBatchDistillationLoss" if taught else "SimCSELoss"
    assert loss in (resumed.output / "run" / "record.json").read_text(encoding="utf-8")
    if not taught:
        assert resumed.values() == adapted.values()
        name = "model.safetensors"
        assert (resumed.output / name).read_bytes() == (adapted.output / name).read_bytes()


@pytest.mark.parametrize(("asked", "teacher"), [(None, "static-mini"), ("none", None)])
def test_a_raw_base_has_the_bundled_encoder_as_teacher_of_english(
    tiny_bert: Path, tmp_path: Path, asked: str | None, teacher: str | None
) -> None:
    texts = [text for text in bundled_sentences() if len(text.split()) > 8][:120]
    english = [Document(text, str(number)) for number, text in enumerate(texts)]
    settings = SHORT | {"teacher": asked, "max_steps": 2, "save_steps": 2, "batch_size": 8}
    found = adapt(english, str(tiny_bert), tmp_path / "mine", **settings)
    assert config_of(found)["teacher"] == (teacher or "none")


def test_last_layers_alone_are_trained(calm_bert: Path) -> None:
    model = load(calm_bert, pooling="mean")
    train_last_layers(model, 1)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained
    assert trained == {name for name, _ in model.named_parameters() if ".layer.2." in name}


@pytest.fixture
def few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search the questions on Python among few documents."""
    monkeypatch.setattr("sentemb.adaptation.held_out._MOST_OTHERS", 20)


def test_general_tasks_are_measured_before_and_after(
    documents: list[Document], calm_bert: Path, tmp_path: Path, few_others: None
) -> None:
    # There is no STS-B in the data folder, so the package's pairs are used.
    options = SHORT | {"max_forgetting": 20.0, "data_dir": str(tmp_path)}
    found = adapt(documents, str(calm_bert), tmp_path / "both", **options)
    assert found.helped and found.general is not None
    changes = [f"{name} {before:.1f} -> {after:.1f}" for name, (before, after) in found.general.items()]
    assert [*found.general] == ["general pairs", "questions on Python"]
    assert all(after >= before - 20.0 for before, after in found.general.values())
    assert found.verdict().endswith("; " + ", ".join(changes))


def test_what_forgets_too_much_is_not_returned(
    documents: list[Document],
    calm_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few_others: None,
) -> None:
    monkeypatch.setattr(ForgettingCheck, "passes", lambda self, after, before: False)
    options = SHORT | {"max_forgetting": 1.0, "data_dir": str(tmp_path), "max_steps": 2, "save_steps": 2}
    found = adapt(documents, str(calm_bert), tmp_path / "same", **options)
    assert not found.helped and found.general is None
    assert found.verdict() == (
        "does not help: every candidate loses more on general tasks than --max-forgetting 1 allows; "
        f"{calm_bert.name} is returned unchanged"
    )


def test_no_task_may_lose_more_than_the_limit(tmp_path: Path) -> None:
    check, before = ForgettingCheck(1.0, str(tmp_path)), {"general pairs": 50.0, "questions on Python": 50.0}
    for after, kept in (((60.0, 49.1), True), ((60.0, 48.9), False), ((48.0, 70.0), False)):
        assert check.passes(dict(zip(before, after, strict=True)), before) is kept


def test_short_documents_that_allow_no_pair_do_not_fill_a_batch(
    documents: list[Document], tiny_bert: Path, tmp_path: Path
) -> None:
    some = [*documents[:105], *(Document(f"short {number}", f"s{number}") for number in range(25))]
    settings = {name: value for name, value in SHORT.items() if name != "batch_size"} | {"max_steps": 1}
    found = adapt(some, str(tiny_bert), tmp_path / "mine", **settings)
    assert record_of(found)["data"]["trained_on"] == 100
    assert config_of(found)["batch_size"] >= 45


def test_an_end_by_the_clock_keeps_what_was_learned_so_far(
    documents: list[Document], tiny_bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        found = adapt(documents, str(tiny_bert), tmp_path / "brief", minutes=1e-6, **SHORT)
    assert "training was stopped by the time limit" in caplog.text
    assert record_of(found)["steps"] == 1


def test_an_end_with_the_last_step_is_none_by_the_clock() -> None:
    limit, control = MinutesCallback(1e-9), TrainerControl()
    for step, over in ((9, True), (10, False)):
        limit.on_train_begin()
        limit.on_step_end(None, TrainerState(global_step=step, max_steps=10), control)
        assert limit.over is over and control.should_training_stop


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": 30}, "30 documents are too few to say"),
        ({"layers": 9}, "has 3 layers"),
        ({"batch_size": 1}, "no anchor has a negative"),
        ({"batch_size": 10**11}, r"batch_size 10{11}: only 320 documents of six words"),
        ({"max_steps": 10**6}, "steps 1000000, each of batch_size 32: more than 1,000,000 training pairs"),
        ({"minutes": 0.0}, "minutes is 0"),
        ({"max_length": 2}, "max_length 2 leaves no room for a text"),
        ({"max_forgetting": 1.0, "data_dir": "/no/such"}, "no such data folder"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(
    change: dict[str, Any], said: str, documents: list[Document], tiny_bert: Path, tmp_path: Path
) -> None:
    settings = SHORT | change
    some = documents[: settings.pop("count", len(documents))]
    with pytest.raises(InputError, match=said):
        adapt(some, str(tiny_bert), tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_pairs_get_the_prompts_and_routes_that_they_are_judged_with(
    documents: list[Document], calm_bert: Path, tmp_path: Path
) -> None:
    transformer = Transformer(str(calm_bert))
    router = Router.for_query_document(
        [transformer, Pooling(16, "mean")], [Transformer(str(calm_bert)), Pooling(16, "cls")]
    )
    prompts = {"query": "the dog ", "passage": "a mat in "}
    base = SentenceTransformer(modules=[router, Normalize()], device="cpu", prompts=prompts)
    base.save_pretrained(str(tmp_path / "routed"))
    values = {**SHORT, "documents": "docs", "base": str(tmp_path / "routed"), "output": str(tmp_path / "out")}
    run = AdaptSession(AdaptConfig(**values), documents, kind=RAW, progress=None)
    trainer = run.make_trainer([], fresh=True)
    batch = trainer.data_collator([run.rows[0]])
    for column, prompt in (("query", "the dog "), ("document", "a mat in ")):
        ids = transformer.tokenizer(prompt + run.rows[0][column], truncation=True, max_length=32)["input_ids"]
        assert batch[f"{column}_input_ids"].tolist() == [ids]
        assert batch[f"{column}_task"] == column
    adapted = adapt(documents, str(tmp_path / "routed"), tmp_path / "mine", **{**SHORT, "max_steps": 2})
    written = SentenceTransformer(str(adapted.output)).prompts
    assert written["document" if adapted.helped else "passage"] == "a mat in "


@pytest.mark.parametrize("limit", [{}, {"max_forgetting": 50.0}])
def test_infinite_weights_return_the_base(
    documents: list[Document], tiny_bert: Path, tmp_path: Path, limit: dict[str, Any], few_others: None
) -> None:
    options = SHORT | limit | {"learning_rate": 1e308, "max_steps": 2, "data_dir": str(tmp_path)}
    found = adapt(documents, str(tiny_bert), tmp_path / "diverged", **options)
    assert not found.helped and found.share == 0
    before, after = load(tiny_bert), load(tmp_path / "diverged")
    texts = [document.text for document in documents[:5]]
    assert np.array_equal(before.encode(texts), after.encode(texts))
