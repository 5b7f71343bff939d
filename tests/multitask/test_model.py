"""Models and ensembles: what they answer, saving and loading, one encoding per text."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb.errors import InputError
from sentemb.evaluation.measures import correlate
from sentemb.multitask import MultiTaskModel, TaskEnsemble, evaluate_tasks
from sentemb.multitask.model import Floats, Sharing, TaskHeads, task_loss
from tests.multitask.toy import toy_sets

PAIRS = [("the cat sat", "the cat sat"), ("the cat sat", "two birds fly"), ("", "red apple")]
TEXTS = ["the cat sat", "red apple", "the cat sat"]
SENTIMENTS = ("bad", "fine", "good")


def build(encoder: SentenceTransformer, seed: int = 0) -> MultiTaskModel:
    torch.manual_seed(seed)
    return MultiTaskModel(encoder, TaskHeads(16, 3), SENTIMENTS)


@pytest.fixture
def model(tiny_encoder: SentenceTransformer) -> MultiTaskModel:
    return build(tiny_encoder)


def answers(model: MultiTaskModel | TaskEnsemble) -> tuple[list[str], list[bool], list[float]]:
    return (
        model.predict_sentiment(TEXTS),
        model.predict_paraphrase(PAIRS),
        model.predict_similarity(PAIRS).tolist(),
    )


def test_answers_are_those_of_the_heads(model: MultiTaskModel) -> None:
    vectors = torch.from_numpy(model.encode(TEXTS))
    model.heads.eval()
    with torch.no_grad():
        expected = [SENTIMENTS[int(row)] for row in model.heads("sentiment", vectors).argmax(1)]
        cosine = model.heads("similarity", vectors[:1], vectors[1:2])
    assert model.predict_sentiment(TEXTS) == expected
    assert model.predict_similarity([(TEXTS[0], TEXTS[1])]) == pytest.approx(5 * cosine.numpy())
    assert model.predict_similarity(PAIRS)[0] == pytest.approx(5)
    assert model.predict_sentiment([]) == model.predict_paraphrase([]) == []
    assert model.predict_similarity([]).shape == (0,)


def test_predicting_leaves_the_training_mode(model: MultiTaskModel) -> None:
    model.encoder.train()
    model.heads.train()
    first = answers(model)
    assert answers(model) == first  # no dropout
    assert model.heads.training
    assert all(module.training for module in model.encoder.modules())


def test_a_saved_model_answers_the_same(model: MultiTaskModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    assert answers(MultiTaskModel.load(tmp_path / "model", device="cpu")) == answers(model)
    native = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(native.encode(TEXTS), model.encode(TEXTS), atol=1e-6)


def test_damaged_folders_are_named(model: MultiTaskModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match="already exists"):
        model.save(tmp_path / "model")
    path = tmp_path / "model" / "multitask" / "config.json"
    config = json.loads(path.read_text())
    for change, message in (
        ({"version": 2}, "has the format version 2"),
        ({"heads": {**config["heads"], "sharing": "full"}}, "do not match its"),
        ({"heads": {**config["heads"], "sharing": "half"}}, "is not a valid configuration of a multi-task"),
    ):
        path.write_text(json.dumps(config | change))
        with pytest.raises(InputError, match=message):
            MultiTaskModel.load(tmp_path / "model")
    with pytest.raises(InputError, match="is not a multi-task model"):
        MultiTaskModel.load(tmp_path)


def test_an_ensemble_routes(tiny_encoder: SentenceTransformer) -> None:
    first, second = build(tiny_encoder), build(tiny_encoder, seed=1)
    ensemble = TaskEnsemble({"sentiment": second, "paraphrase": first, "similarity": first})
    expected = (answers(second)[0], *answers(first)[1:])
    assert answers(ensemble) == expected
    with pytest.raises(InputError, match="the model for sentiment, similarity is missing"):
        TaskEnsemble({"paraphrase": first})


def test_scores_by_hand_and_one_encoding_per_text(
    model: MultiTaskModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = toy_sets()
    names = model.predict_sentiment(sets.sentiment.texts)
    right = [
        SENTIMENTS.index(name) == label for name, label in zip(names, sets.sentiment.labels, strict=True)
    ]
    pairs = list(zip(sets.paraphrase.texts, sets.paraphrase.pairs or [], strict=True))
    paraphrases = np.array(model.predict_paraphrase(pairs)) == sets.paraphrase.labels
    graded = list(zip(sets.similarity.texts, sets.similarity.pairs or [], strict=True))
    correlation = correlate("pearson", model.predict_similarity(graded), sets.similarity.labels)

    calls: list[list[str]] = []
    encode = MultiTaskModel.encode

    def counted(self: MultiTaskModel, texts: Sequence[str]) -> Floats:
        calls.append(list(texts))
        return encode(self, texts)

    monkeypatch.setattr(MultiTaskModel, "encode", counted)
    scores = evaluate_tasks(model, sets)
    assert scores["sentiment_accuracy"] == pytest.approx(np.mean(right))
    assert scores["paraphrase_accuracy"] == pytest.approx(np.mean(paraphrases))
    assert scores["similarity_pearson"] == pytest.approx(correlation, abs=1e-5)
    assert scores["overall"] == pytest.approx((np.mean(right) + np.mean(paraphrases) + correlation) / 3)
    assert len(calls) == 1


def test_a_correlation_that_does_not_exist_is_0(model: MultiTaskModel) -> None:
    with torch.no_grad():
        for parameter in model.heads.second["similarity"].parameters():
            parameter.zero_()
    assert evaluate_tasks(model, toy_sets())["similarity_pearson"] == 0


def test_arguments_that_do_not_fit_are_refused(
    model: MultiTaskModel, tiny_encoder: SentenceTransformer
) -> None:
    for pairs, message in (
        ("one string", "expected pairs of texts, got a single string"),
        ([("a", "b"), "ab"], "pair 1 is 'ab'"),
        ([("a", 3)], "pair 0"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict_paraphrase(pairs)
    with pytest.raises(InputError, match="2 names for 3 sentiment classes"):
        MultiTaskModel(tiny_encoder, TaskHeads(16, 3), ("bad", "good"))
    with pytest.raises(InputError, match="16 dimensions, but the heads expect 8"):
        MultiTaskModel(tiny_encoder, TaskHeads(8, 3), SENTIMENTS)


WIDTH = 6


def heads_of(sharing: Sharing) -> TaskHeads:
    torch.manual_seed(1)
    return TaskHeads(WIDTH, 5, sharing=sharing).double().eval()


def vectors(rows: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layers(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize(
    ("sharing", "names"),
    [
        ("separate", (("paraphrase", "similarity"), ("paraphrase", "similarity"))),
        ("first-layer", (("pair",), ("paraphrase", "similarity"))),
        ("full", (("pair",), ("pair",))),
        ("none", ((), ())),
    ],
)
def test_sharing_decides_which_layers_there_are(
    sharing: Sharing, names: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    heads = heads_of(sharing)
    assert (tuple(heads.first), tuple(heads.second)) == names
    again = TaskHeads(**heads.config()).double().eval()
    again.load_state_dict(heads.state_dict())
    assert torch.equal(again("sentiment", vectors()), heads("sentiment", vectors()))


def test_the_default_head_by_its_formulas() -> None:
    heads = heads_of("first-layer")
    first, second = vectors(), vectors(seed=1)
    one, two = layers(heads.sentiment)
    assert torch.allclose(heads("sentiment", first), two(torch.relu(one(first))))
    (hidden,) = layers(heads.first)

    def transformed(task: str, one: torch.Tensor) -> torch.Tensor:
        (last,) = layers(heads.second[task])
        return last(torch.relu(hidden(one)))

    assert heads.bilinear is not None
    weight, bias = heads.bilinear.weight[0], heads.bilinear.bias[0]
    t1, t2 = transformed("paraphrase", first), transformed("paraphrase", second)
    for row, logit in enumerate(heads("paraphrase", first, second)):
        assert logit.item() == pytest.approx((t1[row] @ weight @ t2[row] + bias).item())
    t1, t2 = transformed("similarity", first), transformed("similarity", second)
    for row, cosine in enumerate(heads("similarity", first, second)):
        expected = t1[row] @ t2[row] / (t1[row].norm() * t2[row].norm())
        assert cosine.item() == pytest.approx(expected.item())


def test_without_layers_both_pair_tasks_are_the_cosine() -> None:
    heads = heads_of("none")
    first, second = vectors(), vectors(seed=1)
    assert torch.equal(heads("paraphrase", first, second), heads("similarity", first, second))
    assert torch.allclose(heads("similarity", first, second), torch.cosine_similarity(first, second))
    assert len(list(heads.parameters())) == 2  # sentiment's linear layer


def test_dropout_comes_before_every_linear_layer() -> None:
    heads = TaskHeads(WIDTH)
    for block in (heads.sentiment, *heads.first.values(), *heads.second.values()):
        kinds = [type(layer) for layer in block]
        places = [index for index, kind in enumerate(kinds) if kind is nn.Linear]
        assert all(kinds[index - 1] is nn.Dropout and block[index - 1].p == 0.3 for index in places)


def test_a_zero_vector_has_cosine_and_gradient_zero() -> None:
    zero = torch.zeros(1, WIDTH, requires_grad=True)
    cosine = TaskHeads(WIDTH, sharing="none")("similarity", zero, torch.ones(1, WIDTH))
    cosine.sum().backward()
    assert cosine.item() == 0
    assert zero.grad is not None
    assert not zero.grad.any()


def test_losses_in_loops() -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([4, 0, 2])
    terms = [
        -math.log(math.exp(row[label]) / sum(math.exp(one) for one in row))
        for row, label in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    assert task_loss("sentiment", logits, labels).item() == pytest.approx(sum(terms) / 3)
    nominal = task_loss("sentiment", logits, labels, nominal_rows=16).item()
    assert nominal == pytest.approx(sum(terms) / 16)

    logit, duplicate = torch.tensor([0.3, -2.0], dtype=torch.float64), torch.tensor([1, 1])
    expected = sum(math.log(1 + math.exp(-one)) for one in logit.tolist()) / 2
    assert task_loss("paraphrase", logit, duplicate).item() == pytest.approx(expected)

    cosines, scores = torch.tensor([0.5, -0.2], dtype=torch.float64), torch.tensor([4.0, 1.0])
    pairs = zip(cosines.tolist(), scores.tolist(), strict=True)
    expected = sum((cosine - score / 5) ** 2 for cosine, score in pairs) / 2
    assert task_loss("similarity", cosines, scores).item() == pytest.approx(expected)
