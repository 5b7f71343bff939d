from __future__ import annotations

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from sentemb._compat import WeightedLayerPooling
from sentemb.errors import InputError
from sentemb.losses import SupCLSeqLoss
from tests.losses import loops
from tests.losses.training import TRAINERS, train_steps

LABELS = torch.tensor([0, 1, 0, 2])


def record(model: SentenceTransformer) -> list[tuple[float, torch.Tensor]]:
    """Record dropout probability and sentence vectors of every later forward pass of the model."""
    seen: list[tuple[float, torch.Tensor]] = []

    def look(_: object, __: object, output: dict) -> None:
        (probability,) = {module.p for module in model.modules() if isinstance(module, nn.Dropout)}
        seen.append((probability, output["sentence_embedding"]))

    model.register_forward_hook(look)
    return seen


@pytest.mark.parametrize("labels", [LABELS, torch.tensor([1, 1, 1, 1]), None], ids=["classes", "one", "none"])
def test_loss_and_gradient_equal_the_loops_on_the_listed_views(encoder64, sentences, labels) -> None:
    loss = SupCLSeqLoss(encoder64, dropouts=(0.2, 0.0, 0.1))
    encoder64.train()
    seen = record(encoder64)
    value = loss([encoder64.preprocess(sentences(4))], labels)
    assert [probability for probability, _ in seen] == [0.2, 0.0, 0.1]
    views = torch.stack([vectors for _, vectors in seen], dim=1)
    classes = list(range(4)) if labels is None else labels.tolist()
    expected = loops.mean_of(loops.supervised(views, classes, temperature=0.05))
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    parameters = [p for name, p in encoder64.named_parameters() if ".pooler." not in name]
    wanted = torch.autograd.grad(expected, parameters, retain_graph=True)
    for found, gradient in zip(torch.autograd.grad(value, parameters), wanted, strict=True):
        torch.testing.assert_close(found, gradient, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2])
def test_small_batches(encoder64, sentences, size) -> None:
    loss = SupCLSeqLoss(encoder64)
    encoder64.train()
    seen = record(encoder64)
    value = loss([encoder64.preprocess(sentences(size))], torch.arange(size))
    views = torch.stack([vectors for _, vectors in seen], dim=1)
    expected = loops.mean_of(loops.supervised(views, list(range(size)), temperature=0.05))
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)
    value.backward()


RELEASED = [
    ((0.0, 0.1, 0.2), (0.1, 0.0, 0.0, 0.2), (0.1, 0.0, 0.0, 0.2)),
    ((0.0, 0.05, 0.2), (0.1, 0.0, 0.05, 0.2), (0.1, 0.0, 0.05, 0.2)),
    ((0.1, 0.1), (0.1, 0.1, 0.1), (0.1, 0.1, 0.1)),
    ((0.0, 0.1), (0.1, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ((0.0, 0.1, 0.2, 0.3, 0.4), (0.1, 0.0, 0.0, 0.2, 0.3, 0.4), (0.1, 0.0, 0.0, 0.2, 0.3, 0.4)),
]


@pytest.mark.parametrize(("listed", "first", "second"), RELEASED)
def test_released_uses_the_probabilities_of_the_authors_code(
    tiny_encoder, sentences, listed, first, second
) -> None:
    loss = SupCLSeqLoss(tiny_encoder, dropouts=listed, preset="released")
    tiny_encoder.train()
    features = [tiny_encoder.preprocess(sentences(4))]
    seen = record(tiny_encoder)
    for expected in (first, second, second):
        own = [0.1 if probability is None else probability for probability in loss.next_views()]
        assert own == list(expected)
    loss = SupCLSeqLoss(tiny_encoder, dropouts=listed, preset="released")
    for expected in (first, second):
        seen.clear()
        loss(features, LABELS)
        # Views of one probability share a forward.
        assert {probability for probability, _ in seen} == set(expected)
    assert all(module.p == 0.1 for module in tiny_encoder.modules() if isinstance(module, nn.Dropout))


def test_released_is_stuck_in_training_steps_only(tiny_encoder, sentences) -> None:
    loss = SupCLSeqLoss(tiny_encoder, dropouts=(0.0, 0.1), preset="released")
    tiny_encoder.eval()
    loss([tiny_encoder.preprocess(sentences(2))], torch.tensor([0, 1]))
    tiny_encoder.train()
    assert loss.next_views() == (None, 0.0, 0.0)
    assert loss.next_views() == (0.0, 0.0, 0.0)


def test_what_a_released_step_leaves_behind_is_found_again(tiny_encoder) -> None:
    first, second = (SupCLSeqLoss(tiny_encoder, dropouts=(0.0, 0.1), preset="released") for _ in range(2))
    tiny_encoder.train()
    for expected in ((None, 0.0, 0.0), (0.0, 0.0, 0.0)):
        second.load_head_state(first.head_state())
        assert second.next_views() == first.next_views() == expected
    plain = SupCLSeqLoss(tiny_encoder)
    assert not plain.head_state()
    for loss, state in ((plain, first.head_state()), (first, {})):
        with pytest.raises(
            InputError, match=r"saved state .* contains (left_behind|nothing), .*; build the loss"
        ):
            loss.load_head_state(state)


def test_released_scales_the_loss(encoder64) -> None:
    torch.manual_seed(0)
    views = torch.randn(4, 3, 16, dtype=torch.float64)
    released = SupCLSeqLoss(encoder64, preset="released")
    expected = 0.05 / 0.07 * loops.mean_of(loops.supervised(views, LABELS.tolist(), temperature=0.05))
    value = released.compute_loss_from_embeddings(list(views.unbind(1)), LABELS)
    torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)


def test_grades_are_rounded_to_one_decimal_but_not_in_the_released_code(tiny_encoder) -> None:
    torch.manual_seed(0)
    views = list(torch.randn(2, 4, 16).unbind(0))
    grades = torch.tensor([3.21, 3.24, 0.0, 5.0])
    paper, released = SupCLSeqLoss(tiny_encoder), SupCLSeqLoss(tiny_encoder, preset="released")
    rounded = paper.compute_loss_from_embeddings(views, torch.tensor([0, 0, 1, 2]))
    exact = released.compute_loss_from_embeddings(views, torch.tensor([0, 3, 1, 2]))
    assert paper.compute_loss_from_embeddings(views, grades) == rounded
    assert released.compute_loss_from_embeddings(views, grades) == exact


def test_cls_is_the_first_token_whatever_the_pooling(encoder64, sentences) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    averaged = SentenceTransformer(modules=[encoder64[0], Pooling(16, "mean")], device="cpu").eval()
    features = [encoder64.preprocess(sentences(4))]
    expected = SupCLSeqLoss(encoder64.eval())(features, LABELS)
    torch.testing.assert_close(SupCLSeqLoss(averaged, representation="cls")(features, LABELS), expected)
    assert SupCLSeqLoss(averaged)(features, LABELS) != expected


def test_cls_is_refused_where_layers_are_mixed(tiny_encoder) -> None:
    layers = WeightedLayerPooling(16, num_hidden_layers=3)
    mixed = SentenceTransformer(modules=[tiny_encoder[0], layers, tiny_encoder[1]], device="cpu")
    with pytest.raises(InputError, match="a pooling that averages layers; set representation='sentence'"):
        SupCLSeqLoss(mixed, representation="cls")


def test_padding_does_not_change_the_loss(encoder64, sentences) -> None:
    loss = SupCLSeqLoss(encoder64.eval(), representation="cls")
    features = encoder64.preprocess(sentences(4))
    padded = {
        name: nn.functional.pad(value, (0, 9)) if isinstance(value, torch.Tensor) else value
        for name, value in features.items()
    }
    torch.testing.assert_close(loss([features], LABELS), loss([padded], LABELS), atol=1e-9, rtol=1e-9)


def test_half_precision_is_finite(tiny_encoder, sentences) -> None:
    loss = SupCLSeqLoss(tiny_encoder)
    tiny_encoder.train()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss([tiny_encoder.preprocess(sentences(4))], LABELS)
    value.backward()
    assert value.isfinite()
    assert all(p.grad.isfinite().all() for p in loss.parameters() if p.grad is not None)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_trains_in_every_trainer(tiny_encoder, sentences, tmp_path, trainer) -> None:
    data = {"sentence": sentences(12), "label": [0, 1] * 6}
    train_steps(trainer, tiny_encoder, SupCLSeqLoss(tiny_encoder), data, tmp_path)
    assert all(module.p == 0.1 for module in tiny_encoder.modules() if isinstance(module, nn.Dropout))


def test_trains_without_labels(tiny_encoder, sentences, tmp_path) -> None:
    loss = SupCLSeqLoss(tiny_encoder, dropouts=(0.1, 0.1))
    train_steps("sentemb", tiny_encoder, loss, {"sentence": sentences(12)}, tmp_path)


def test_model_card_gets_options_and_citation(tiny_encoder) -> None:
    loss = SupCLSeqLoss(tiny_encoder, dropouts=[0, 0.2])
    assert loss.get_config_dict() == {
        "dropouts": (0.0, 0.2),
        "representation": "sentence",
        "temperature": 0.05,
        "reduction": "mean",
        "gather_across_devices": True,
        "preset": None,
    }
    assert "2021.findings-emnlp.289" in loss.citation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropouts": (0.1, 1.5)}, "dropouts of SupCLSeqLoss"),
        ({"temperature": -1.0}, "temperature of SupCLSeqLoss"),
        ({"representation": "pooler"}, "representation of SupCLSeqLoss is 'pooler'; choose one of"),
        ({"preset": "code"}, "preset of SupCLSeqLoss is 'code'; choose one of"),
    ],
)
def test_bad_options_are_refused(tiny_encoder, options, message) -> None:
    with pytest.raises(InputError, match=message):
        SupCLSeqLoss(tiny_encoder, **options)


def test_bad_batches_are_refused(tiny_encoder, sentences) -> None:
    features = tiny_encoder.preprocess(sentences(3))
    with pytest.raises(InputError, match="needs single texts, but this batch has 2 text columns"):
        SupCLSeqLoss(tiny_encoder)([features, features])
    with pytest.raises(InputError, match="needs labels or a second view"):
        SupCLSeqLoss(tiny_encoder, dropouts=(0.1,))([features])
