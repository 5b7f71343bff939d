from __future__ import annotations

import math

import pytest
import torch

from sentemb.errors import InputError
from sentemb.losses import LaConLoss
from sentemb.losses.lacon import label_dispersion
from sentemb.modules import LabelHead, LinearHead
from tests.losses import lacon_loops, loops
from tests.losses.training import train_steps

WIDTH = 12
BATCHES = {
    "all classes": [0, 1, 2, 1, 0, 2, 1],
    "absent classes": [3, 0, 3, 0, 0],
    "one class": [1, 1, 1],
    "a batch of one": [2],
    "a pair of one class": [0, 0],
    "a pair of two classes": [0, 1],
}


class Encoder(torch.nn.Module):
    """An encoder that returns the given vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, features: dict) -> dict:
        return {**features, "sentence_embedding": self.scale * features["sentence_embedding"]}


def build(classes: int = 4, *, layers: int = 3, **options) -> LaConLoss:
    torch.manual_seed(0)
    head = LabelHead(WIDTH, classes, layers=layers)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.mul_(20)  # away from the small first weights, so that every part counts
    return LaConLoss(Encoder(), head, **options).double()


def texts(count: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(count, WIDTH, dtype=torch.float64).requires_grad_()


def expected_components(loss: LaConLoss, vectors: torch.Tensor, classes: list[int]) -> dict:
    labels, temperature = loss.head.label_vectors, loss.head.temperature
    return {
        "icl": lacon_loops.instance_centered(
            vectors, labels, classes, heads=loss.heads, temperature=temperature, slices=loss.slices
        ),
        "lcl": lacon_loops.label_centered(
            vectors, labels, classes, temperature=temperature, denominator=loss.denominator
        ),
        "ler": 0.5 * lacon_loops.dispersion(labels),
    }


OPTIONS = {
    "paper": {},
    "three heads": {"heads": 3},
    "global slices": {"heads": 3, "slices": "global"},
    "infonce": {"denominator": "infonce"},
    "all": {"denominator": "all"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("classes", BATCHES.values(), ids=BATCHES)
def test_components_and_gradients_equal_the_loops(classes, options) -> None:
    loss, sentences = build(**options), texts(len(classes))
    found = loss([{"sentence_embedding": sentences}], torch.tensor(classes))
    vectors = loss.head.embed({"sentence_embedding": sentences})
    wanted = expected_components(loss, vectors, classes)
    assert found.keys() == wanted.keys() == {"icl", "lcl", "ler"}
    for name in wanted:
        loops.assert_equal(found[name], wanted[name], [sentences, *loss.owned_parameters()])


def test_the_printed_denominator_can_be_negative_and_the_others_cannot() -> None:
    sentences, classes = torch.eye(WIDTH, dtype=torch.float64)[:2], torch.tensor([0, 1])
    values = {}
    for denominator in ("negatives", "infonce", "all"):
        loss = build(2, layers=0, denominator=denominator)
        with torch.no_grad():
            loss.head.label_vectors.copy_(torch.eye(WIDTH)[:2])  # every text at its label
        values[denominator] = loss([{"sentence_embedding": sentences}], classes)["lcl"].item()
    # cos is 1 with the own label and 0 with the other, at temperature 0.1
    assert values["negatives"] == pytest.approx(-10)
    assert values["infonce"] == values["all"] == pytest.approx(math.log1p(math.exp(-10)))


def test_icl_of_one_head_is_the_cross_entropy_of_the_logits_that_the_head_predicts_by() -> None:
    loss, sentences, classes = build(heads=1), texts(6), torch.tensor([0, 1, 2, 3, 1, 1])
    logits = loss.head({"sentence_embedding": sentences})
    found = loss([{"sentence_embedding": sentences}], classes)["icl"]
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(logits, classes))


def test_a_head_of_one_class_has_nothing_to_learn() -> None:
    loss, sentences = build(1), texts(3)
    found = loss([{"sentence_embedding": sentences}], torch.zeros(3, dtype=torch.long))
    sum(found.values()).backward()
    assert all(value.item() == pytest.approx(0, abs=1e-12) for value in found.values())
    assert sentences.grad.abs().max() < 1e-12
    assert not loss.head.label_vectors.grad.any()


def test_dispersion_spans_what_the_paper_says() -> None:
    vector = torch.randn(1, 8, dtype=torch.float64)
    assert label_dispersion(torch.cat([vector, 3 * vector])).item() == pytest.approx(math.e**2 - 1)
    assert label_dispersion(torch.cat([vector, -vector])).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("width", "heads"), [(768, 6), (1024, 8), (384, 3), (312, 2), (256, 2), (128, 1), (16, 1), (7, 1)]
)
def test_heads_by_themselves_are_slices_of_at_least_128_dimensions(width, heads) -> None:
    assert LaConLoss(Encoder(), LabelHead(width, 2, layers=0)).heads == heads


def test_a_head_without_label_vectors_is_refused() -> None:
    with pytest.raises(InputError, match="LinearHead does not have any; use a LabelHead or a FusionHead"):
        LaConLoss(Encoder(), LinearHead(WIDTH, 2))


def test_mixed_precision_is_near_full_precision(tiny_encoder, sentences) -> None:
    loss = LaConLoss(tiny_encoder.eval(), LabelHead(16, 3))
    features, labels = tiny_encoder.preprocess(sentences(6)), torch.tensor([0, 1, 0, 0, 1, 1])
    full = loss([features], labels)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = loss([features], labels)
    torch.testing.assert_close(mixed, full, atol=0.2, rtol=0.05)


def test_label_vectors_may_learn_at_a_rate_of_their_own(tiny_encoder, sentences, tmp_path) -> None:
    loss = LaConLoss(tiny_encoder, LabelHead(16, 2))
    before = loss.head_state()
    rows = {"sentence": sentences(8), "label": [0, 1] * 4}
    rates = {"learning_rate_mapping": {"label_vectors": 0.0}}
    train_steps("sentemb", tiny_encoder, loss, rows, tmp_path, **rates)
    after = loss.head_state()
    assert [name for name in before if torch.equal(before[name], after[name])] == ["head.label_vectors"]
