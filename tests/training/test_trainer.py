from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import SoftmaxLoss
from torch import Tensor, nn
from transformers import TrainerCallback

from sentemb._compat import BaseEvaluator
from sentemb.errors import InputError
from sentemb.losses import (
    BackTranslationLoss,
    ParaphraseContrastLoss,
    SelfGuidedLoss,
    SupCLSeqLoss,
)
from sentemb.modules import load
from sentemb.training import SentembTrainer
from sentemb.training.trainer import LengthBucketedEncoder, LossWeights, bucket_sizes, bucketed_by_length
from tests.training.training_helpers import HeadLoss, assert_equal, make_sentences, make_trainer, weights_of


class ScriptedEvaluator(BaseEvaluator):
    """Returns the next score of a list."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.scores = list(scores)
        self.primary_metric = "score"

    def __call__(
        self, model: nn.Module, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        return {"score": self.scores.pop(0)}


class SelfGuided(SelfGuidedLoss):
    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, objective="opt1", projection_width=8)


class ReleasedViews(SupCLSeqLoss):
    """Every step leaves a dropout probability to the next one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, dropouts=(0.0, 0.3, 0.1), preset="released")


@pytest.mark.parametrize("loss", [HeadLoss, SelfGuided, ReleasedViews])
def test_resuming_anywhere_equals_no_interruption_to_the_last_bit(
    tiny_bert: Path, tmp_path: Path, loss: type[nn.Module]
) -> None:
    whole = make_trainer(tiny_bert, tmp_path / "whole", loss=loss, save_steps=1, num_train_epochs=2)
    whole.train()
    # In the first epoch, at its end, and just after it.
    for step in (7, 12, 13):
        resumed = make_trainer(
            tiny_bert, tmp_path / f"resumed-{step}", loss=loss, save_strategy="no", num_train_epochs=2
        )
        resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{step}"))
        assert_equal(weights_of(whole), weights_of(resumed))


def test_a_stream_trains_or_says_what_to_do(tiny_encoder: Any, tmp_path: Path) -> None:
    rows = Dataset.from_dict({"text": [f"a cat sat {'on ' * (one % 4)}mat" for one in range(16)]})
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path), max_steps=2, per_device_train_batch_size=4, save_strategy="no", report_to=[]
    )

    def trainer(**options: Any) -> SentembTrainer:
        loss = SelfGuidedLoss(tiny_encoder, projection_width=16, **options)
        return SentembTrainer(tiny_encoder, arguments, train_dataset=rows.to_iterable_dataset(), loss=loss)

    with pytest.raises(InputError, match=r'streaming train_dataset; .*views="online"'):
        trainer().train()
    online = trainer(views="online")
    online.train()
    assert online.state.global_step == 2


def test_loading_a_checkpoint_runs_no_code(tiny_bert: Path, tmp_path: Path) -> None:
    make_trainer(tiny_bert, tmp_path, max_steps=2, save_steps=2).train()
    checkpoint = tmp_path / "checkpoint-2"
    written = {path.suffix for path in checkpoint.rglob("*") if path.is_file()}
    assert written <= {".json", ".safetensors", ".pt", ".pth"}

    class Harmful:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "harmed",)

    for name in ("optimizer.pt", "rng_state.pth"):
        kept = (checkpoint / name).read_bytes()
        torch.save(Harmful(), checkpoint / name)
        with pytest.raises(pickle.UnpicklingError, match="Weights only"):
            make_trainer(tiny_bert, tmp_path).train(resume_from_checkpoint=str(checkpoint))
        (checkpoint / name).write_bytes(kept)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), RuntimeError("enforce fail at inline_container")]
)
def test_a_checkpoint_appears_only_when_it_is_complete(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    trainer = make_trainer(tiny_bert, tmp_path, max_steps=5)

    def full_disk(folder: str) -> None:
        raise error

    monkeypatch.setattr(trainer, "_save_rng_state", full_disk)
    with pytest.raises(OSError, match="No space"):
        trainer.train()
    assert [path.name for path in tmp_path.iterdir()] == []


def test_the_stock_trainers_checkpoint_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-5").mkdir()
    trainer = make_trainer(tiny_bert, tmp_path)
    with pytest.raises(InputError, match="not a checkpoint"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))


@pytest.mark.parametrize(("scores", "best"), [([0.1, 0.9, 0.5, 0.2], 2), ([0.9, 0.5, 0.6, 0.2], 0)])
def test_the_best_checkpoint_brings_back_model_and_head(
    tiny_bert: Path, tmp_path: Path, scores: list[float], best: int
) -> None:
    """The score before the first step is a candidate."""
    trainer = make_trainer(
        tiny_bert,
        tmp_path,
        evaluator=ScriptedEvaluator(scores),
        max_steps=6,
        save_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        eval_on_start=True,
        metric_for_best_model="eval_score",
        load_best_model_at_end=True,
    )
    before = weights_of(trainer)
    trainer.train()
    assert trainer.state.best_global_step == best
    kept = weights_of(trainer)
    if best == 0:
        assert_equal(before, kept)
    trainer.restore(tmp_path / "checkpoint-6")
    assert not torch.equal(kept["loss.head.weight"], weights_of(trainer)["loss.head.weight"])
    trainer.restore(tmp_path / f"checkpoint-{best}")
    assert_equal(kept, weights_of(trainer))


class NormCallback(TrainerCallback):
    """Global gradient norm over model and head, as the optimizer sees it."""

    def __init__(self, trainer: SentembTrainer) -> None:
        self.trainer = trainer
        self.norms: list[float] = []

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        parameters = [*self.trainer.model.parameters(), *self.trainer.loss.head.parameters()]
        gradients = [p.grad for p in parameters if p.grad is not None]
        self.norms.append(float(torch.cat([g.flatten() for g in gradients]).norm()))


def test_clipping_counts_the_head(tiny_bert: Path, tmp_path: Path) -> None:
    trainer = make_trainer(tiny_bert, tmp_path, max_steps=3, max_grad_norm=0.25, save_strategy="no")
    callback = NormCallback(trainer)
    trainer.add_callback(callback)
    trainer.train()
    assert callback.norms == pytest.approx([0.25] * 3, rel=1e-4)


def test_a_loss_that_is_not_finite_stops_the_run(tiny_bert: Path, tmp_path: Path) -> None:
    class Diverging(HeadLoss):
        def forward(
            self, features: Iterable[dict[str, Any]], labels: Tensor | None = None
        ) -> dict[str, Tensor]:
            return {name: value * float("nan") for name, value in super().forward(features, labels).items()}

    trainer = make_trainer(tiny_bert, tmp_path, loss=Diverging)
    with pytest.raises(InputError, match="not finite at step 5"):
        trainer.train()


def test_weights_of_losses_are_found_once_and_restored(tiny_encoder: SentenceTransformer) -> None:
    first, second = HeadLoss(tiny_encoder), HeadLoss(tiny_encoder)
    upstream = SoftmaxLoss(tiny_encoder, sentence_embedding_dimension=16, num_labels=3)
    owned = LossWeights({"a": first, "b": second, "again": first, "c": upstream}, tiny_encoder)
    expected = {"a.head", "b.head", "c.classifier"}
    assert set(owned.state()) == {f"{name}.{kind}" for name in expected for kind in ("weight", "bias")}
    assert len(owned.parameters()) == 6
    state = owned.state()
    for layer in (second.head, upstream.classifier):
        nn.init.zeros_(layer.weight)
    owned.load(state)
    assert torch.equal(second.head.weight, state["b.head.weight"])
    assert torch.equal(upstream.classifier.weight, state["c.classifier.weight"])
    with pytest.raises(InputError, match=r"classifier\.weight"):
        owned.load({"classifier.weight": torch.zeros(1)})


def test_a_dict_of_losses_trains_and_resumes(tiny_bert: Path, tmp_path: Path) -> None:
    def trainer(output: Path) -> SentembTrainer:
        torch.manual_seed(0)
        model = load(tiny_bert, pooling="cls", device="cpu")
        data = {
            name: Dataset.from_dict({"text": make_sentences(12, seed=seed)}) for seed, name in enumerate("ab")
        }
        return SentembTrainer(
            model,
            SentenceTransformerTrainingArguments(
                str(output),
                per_device_train_batch_size=4,
                save_steps=2,
                report_to="none",
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=DatasetDict(data),
            loss={"a": HeadLoss(model), "b": HeadLoss(model)},
        )

    whole, resumed = trainer(tmp_path / "whole"), trainer(tmp_path / "resumed")
    whole.args.num_train_epochs = resumed.args.num_train_epochs = 2
    whole.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert_equal(weights_of(whole), weights_of(resumed))


def test_sharding_and_pushing_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pickle files"):
        make_trainer(tiny_bert, tmp_path, push_to_hub=True)


class TypeLoss(HeadLoss):
    """Notes the number type that its own head computes in."""

    seen: torch.dtype | None = None

    def forward(self, features: Iterable[dict[str, Any]], labels: Tensor | None = None) -> dict[str, Tensor]:
        TypeLoss.seen = self.head(torch.zeros(1, 16)).dtype
        return super().forward(features, labels)


@pytest.mark.parametrize(("bf16", "expected"), [(False, torch.float32), (True, torch.bfloat16)])
def test_mixed_precision_reaches_the_head_of_the_loss(
    bf16: bool, expected: torch.dtype, tiny_bert: Path, tmp_path: Path
) -> None:
    make_trainer(tiny_bert, tmp_path, loss=TypeLoss, bf16=bf16, max_steps=1).train()
    assert TypeLoss.seen == expected


TEXTS = ["cat", "the man plays guitar " * 7, "a dog", "red apple house", "cat dog " * 12, "birds fly", "the"]


@pytest.fixture
def encoder(tiny_bert: Path) -> SentenceTransformer:
    return load(tiny_bert, pooling="first-last", device="cpu").eval()


def test_parts_are_what_the_whole_is(encoder: SentenceTransformer) -> None:
    features = encoder.preprocess(TEXTS)
    names = set(features)
    mask = features["attention_mask"].bool()
    assert len(bucket_sizes(sorted(mask.sum(dim=1).tolist(), reverse=True))) > 1
    parted = bucketed_by_length(encoder)
    assert isinstance(parted, LengthBucketedEncoder) and parted.module is encoder
    whole, parts = encoder(dict(features)), parted(features)
    assert set(features) == names
    assert set(whole) == set(parts)
    torch.testing.assert_close(parts["sentence_embedding"], whole["sentence_embedding"])
    torch.testing.assert_close(parts["token_embeddings"][mask], whole["token_embeddings"][mask])
    assert parts["token_embeddings"].shape == whole["token_embeddings"].shape
    for one, other in zip(parts["all_layer_embeddings"], whole["all_layer_embeddings"], strict=True):
        torch.testing.assert_close(one[mask], other[mask])
    assert torch.equal(parts["attention_mask"], whole["attention_mask"])


LOSSES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "self-guided": lambda model: SelfGuidedLoss(model, projection_width=8),
    "back-translation": lambda model: BackTranslationLoss(model, projection_width=8),
    "paraphrases": lambda model: ParaphraseContrastLoss(model, head=None),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_do_not_see_the_parts(tiny_bert: Path, name: str) -> None:
    def gradients(wrap: Callable[[SentenceTransformer], nn.Module]) -> dict[str, torch.Tensor]:
        model = load(tiny_bert, pooling="cls", device="cpu").eval()
        torch.manual_seed(0)
        loss = LOSSES[name](wrap(model))
        columns = [TEXTS] if name == "self-guided" else [TEXTS, TEXTS[::-1]]
        labels = torch.tensor([1, 1, 0, 0, 1, 0, 1])
        value = loss([model.preprocess(column) for column in columns], labels)
        (sum(value.values()) if isinstance(value, dict) else value).backward()
        return {path: weight.grad for path, weight in model.named_parameters() if weight.grad is not None}

    whole, parts = gradients(lambda model: model), gradients(LengthBucketedEncoder)
    assert whole.keys() == parts.keys()
    for path, gradient in whole.items():
        torch.testing.assert_close(parts[path], gradient, rtol=1e-3, atol=1e-5, msg=path)


def test_padding_on_the_left_is_left_to_the_encoder(encoder: SentenceTransformer) -> None:
    features = {
        name: value.flip(1) for name, value in encoder.preprocess(TEXTS).items() if torch.is_tensor(value)
    }
    whole, parts = encoder(dict(features)), LengthBucketedEncoder(encoder)(dict(features))
    assert torch.equal(whole["sentence_embedding"], parts["sentence_embedding"])


@pytest.mark.parametrize("lengths", [[7], [5, 5, 5], [90, 80, 12, 11, 10, 9], [200, 100, 50, 25, 12, 6], []])
def test_no_other_division_is_cheaper(lengths: list[int]) -> None:
    def price(sizes: tuple[int, ...]) -> int:
        starts = [0, *itertools.accumulate(sizes)][:-1]
        return sum(size * lengths[start] + 50 for size, start in zip(sizes, starts, strict=True))

    every = [
        sizes
        for count in range(len(lengths) + 1)
        for sizes in itertools.product(range(1, len(lengths) + 1), repeat=count)
        if sum(sizes) == len(lengths)
    ]
    assert price(tuple(bucket_sizes(lengths))) == min(price(sizes) for sizes in every)
