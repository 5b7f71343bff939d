"""LaCon's heads: logits and gradients compared with loops, and the effects of padding and precision."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from sentemb.errors import InputError
from sentemb.modules import FusionHead, LabelHead, LeamHead, LsanHead, build_head
from tests.modules import label_loops

WIDTH = 6
TOKEN_HEADS = {
    "fusion": lambda classes: FusionHead(WIDTH, classes, window=3),
    "leam": lambda classes: LeamHead(WIDTH, classes, window=3, hidden=5),
    "lsan": lambda classes: LsanHead(WIDTH, classes, hidden=5),
}
HEADS = {"label": lambda classes: LabelHead(WIDTH, classes), **TOKEN_HEADS}


def widened(head: nn.Module) -> nn.Module:
    """Return the head in float64 and evaluation mode, with weights so large that every term matters."""
    generator = torch.Generator().manual_seed(1)
    for parameter in head.double().parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return head.eval()


def linears(head: LabelHead) -> list[nn.Linear]:
    return [module for module in head.projection if isinstance(module, nn.Linear)]


def assert_same_with_gradients(head: nn.Module, features: dict, expected: list[torch.Tensor]) -> None:
    logits, wanted = head(features), torch.stack(expected)
    torch.testing.assert_close(logits, wanted, atol=1e-9, rtol=1e-9)
    learns = getattr(head, "train_labels", True)
    inputs = [p for name, p in head.named_parameters() if learns or name != "label_vectors"]
    inputs.append(features["token_embeddings"])
    weights = torch.linspace(-1, 2, logits.numel(), dtype=torch.float64).view_as(logits)
    found = torch.autograd.grad((weights * logits).sum(), inputs)
    for one, other in zip(found, torch.autograd.grad((weights * wanted).sum(), inputs), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("layers", "last_relu"), [(3, False), (3, True), (1, False), (0, False)])
@pytest.mark.parametrize("classes", [1, 3])
def test_label_head_equals_the_loops(layers, last_relu, classes) -> None:
    head = widened(LabelHead(WIDTH, classes, layers=layers, last_relu=last_relu, temperature=0.2))
    features = label_loops.make_features(WIDTH)
    vectors = [
        label_loops.projected(states[0], linears(head), last_relu=last_relu)
        for states in label_loops.rows_of(features)
    ]
    torch.testing.assert_close(head.embed(features), torch.stack(vectors), atol=1e-9, rtol=1e-9)
    expected = [torch.stack([label_loops.cosine(v, p) / 0.2 for p in head.label_vectors]) for v in vectors]
    assert_same_with_gradients(head, features, expected)


@pytest.mark.parametrize(("window", "relu"), [(1, True), (3, True), (3, False), (9, True)])
@pytest.mark.parametrize("classes", [1, 3])
def test_fusion_head_equals_the_loops(window, relu, classes) -> None:
    head = widened(FusionHead(WIDTH, classes, window=window, relu=relu))
    features = label_loops.make_features(WIDTH)
    expected = []
    for states in label_loops.rows_of(features):
        mean = label_loops.label_mean(states, head.label_vectors, head.attention.convolution, relu=relu)
        vector = label_loops.projected(mean, linears(head))
        expected.append(torch.stack([label_loops.cosine(vector, p) / 0.1 for p in head.label_vectors]))
    assert_same_with_gradients(head, features, expected)


@pytest.mark.parametrize("classes", [1, 3])
def test_leam_head_equals_the_loops(classes) -> None:
    head = widened(LeamHead(WIDTH, classes, window=3, hidden=5))
    layers = [module for module in head.classifier if isinstance(module, nn.Linear)]
    features = label_loops.make_features(WIDTH)
    means = [
        label_loops.label_mean(states, head.label_vectors, head.attention.convolution)
        for states in label_loops.rows_of(features)
    ]
    assert_same_with_gradients(head, features, [label_loops.projected(mean, layers) for mean in means])
    of_labels = [label_loops.projected(vector, layers) for vector in head.label_vectors]
    torch.testing.assert_close(head.label_logits(), torch.stack(of_labels), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("train_labels", [False, True])
@pytest.mark.parametrize("classes", [1, 3])
def test_lsan_head_equals_the_loops(train_labels, classes) -> None:
    head = widened(LsanHead(WIDTH, classes, hidden=5, train_labels=train_labels))
    features = label_loops.make_features(WIDTH)
    expected = [label_loops.lsan(states, head) for states in label_loops.rows_of(features)]
    assert_same_with_gradients(head, features, expected)
    head(features).sum().backward()
    assert (head.label_vectors.grad is not None) == train_labels


def test_lsan_gates_that_are_both_closed_divide_nothing_by_nothing() -> None:
    head = widened(LsanHead(WIDTH, 3, hidden=5))
    with torch.no_grad():
        head.label_gate.bias.fill_(-1e5)
        head.self_gate.bias.fill_(-1e5)
    assert head.float()(label_loops.make_features(WIDTH)).isfinite().all()


@pytest.mark.parametrize("make", TOKEN_HEADS.values(), ids=TOKEN_HEADS)
def test_padding_on_either_side_changes_nothing_whatever_it_holds(make) -> None:
    head = widened(make(3))
    features = label_loops.make_features(WIDTH)
    left = torch.full((3, 8, WIDTH), torch.inf, dtype=torch.float64)
    mask = torch.zeros(3, 8, dtype=torch.int64)
    for row, own in enumerate(label_loops.rows_of(features)):
        left[row, 8 - len(own) :] = own.detach()
        mask[row, 8 - len(own) :] = 1
    alone = label_loops.make_features(WIDTH, lengths=label_loops.LENGTHS[:1])
    with torch.no_grad():
        logits = head(features)
        torch.testing.assert_close(head(alone), logits[:1], atol=1e-9, rtol=1e-9)
        for padded in (
            {"token_embeddings": left, "attention_mask": mask},
            label_loops.make_features(WIDTH, padding=5),
        ):
            torch.testing.assert_close(head(padded), logits, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("make", HEADS.values(), ids=HEADS)
def test_half_precision_stays_finite_and_near(make) -> None:
    head = make(3).eval()
    features = label_loops.make_features(WIDTH)
    with torch.no_grad():
        expected = head(features).float()
        half = {n: v.bfloat16() if v.is_floating_point() else v for n, v in features.items()}
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(head(half).float(), expected, atol=0.5, rtol=0.1)
        assert head.bfloat16()(half).isfinite().all()


@pytest.mark.parametrize("make", HEADS.values(), ids=HEADS)
def test_saved_heads_are_built_again(make) -> None:
    head = make(3).eval()
    again = build_head(json.loads(json.dumps(head.config())))
    assert type(again) is type(head)
    assert again.config() == head.config()
    again.load_state_dict(head.state_dict())
    features = {n: v.float() for n, v in label_loops.make_features(WIDTH).items()}
    assert torch.equal(again.eval()(features), head(features))


def test_label_vectors_start_as_bert_starts_its_embeddings() -> None:
    torch.manual_seed(0)
    for head in (LabelHead(400, 50), LeamHead(400, 50), LsanHead(400, 50)):
        assert head.label_vectors.std().item() == pytest.approx(0.02, rel=0.05)


def test_a_zero_vector_has_logits_zero_and_no_gradient() -> None:
    head = LabelHead(WIDTH, 2, layers=0)
    vectors = torch.zeros(1, WIDTH, requires_grad=True)
    logits = head({"sentence_embedding": vectors})
    logits.sum().backward()
    assert not logits.any()
    assert not vectors.grad.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "label", "classes": 0}, "classes of a classification head is 0"),
        ({"kind": "label", "layers": -1}, "layers of a classification head is -1; use .* at least 0"),
        (
            {"kind": "label", "temperature": 0},
            "temperature of a classification head is 0; use a finite number",
        ),
        ({"kind": "label", "temperature": "0.1"}, "temperature of a classification head is '0.1'"),
        ({"kind": "label-fusion", "window": 4}, "window of a classification head is 4; use an odd number"),
        ({"kind": "leam", "window": 0}, "window of a classification head is 0"),
        ({"kind": "leam", "dropout": 1.0}, "dropout of a classification head is 1.0"),
        ({"kind": "lsan", "hidden": 0}, "hidden of a classification head is 0"),
        (
            {"kind": "label", "last_relu": "no"},
            "last_relu of a classification head is 'no'; use true or false",
        ),
        ({"kind": "label-fusion", "relu": 0}, "relu of a classification head is 0; use true or false"),
        ({"kind": "lsan", "train_labels": 1}, "train_labels of a classification head is 1"),
    ],
)
def test_bad_options_are_one_line(options, message) -> None:
    with pytest.raises(InputError, match=message):
        build_head({"width": WIDTH, "classes": 2, **options})


@pytest.mark.parametrize("make", TOKEN_HEADS.values(), ids=TOKEN_HEADS)
def test_texts_without_padding_are_refused(make) -> None:
    flat = {"token_embeddings": torch.ones(12, WIDTH), "attention_mask": torch.ones(1, 12)}
    for features in ({"sentence_embedding": torch.ones(1, WIDTH)}, flat):
        with pytest.raises(
            InputError, match=r"needs the hidden states of padded texts.*unpad_inputs = False"
        ):
            make(2)(features)


@pytest.mark.parametrize("make", HEADS.values(), ids=HEADS)
def test_vectors_of_another_width_are_refused(make) -> None:
    with pytest.raises(InputError, match="have 4 dimensions, but the head expects 6"):
        make(2)(label_loops.make_features(4))
