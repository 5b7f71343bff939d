"""Every loss in each of its forms, with texts and labels; also for other processes, which import this."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from sentemb.losses import (
    BackTranslationLoss,
    CosineDistillationLoss,
    CrossEntropyContrastLoss,
    CrossEntropyLoss,
    CrossEntropySupConLoss,
    EncoderLoss,
    ESimCSELoss,
    FocalInfoNCELoss,
    GradientCache,
    InBatchDistillationLoss,
    LaConLoss,
    LeamLoss,
    ParaphraseContrastLoss,
    PromptBERTLoss,
    RankCSELoss,
    RankEncoderLoss,
    SelfGuidedLoss,
    SimCSELoss,
    SimCSEPlusPlusLoss,
    SNCSELoss,
    SupCLSeqLoss,
    SupConLoss,
)
from sentemb.modules import FusionHead, LabelHead, LeamHead, LinearHead, LsanHead, MaskPooling

TEXTS = [
    "a cat sat on the mat", "the dog ran", "two birds fly over the house", "children eat red apple",
    "man plays guitar", "woman is sleeping in the park", "the cat is not sleeping", "a man ran in the park",
]  # fmt: skip
# On two processes: classes 2 and 3 occur once, classes 0 and 1 lie on both.
CLASSES = torch.tensor([0, 1, 2, 3, 1, 0, 0, 1])
# Paraphrases on one process only; the components of texts lie on both.
PAIRS = torch.tensor([[1, 1, 1], [0, 1, 2], [1, 3, 3], [0, 2, 1], [0, 4, 5], [0, 5, 1], [0, 3, 6], [0, 1, 3]])
TEACHER = torch.randn(8, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """A loss with its options, the maker of its classification head, its pooling, and what it reads."""

    loss: type[EncoderLoss]
    options: dict[str, Any] = field(default_factory=dict)
    head: Callable[[], nn.Module] | None = None
    columns: int = 1
    labels: Tensor | None = None
    prompted: bool = False


CORPUS = torch.randn(30, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
_SMALL = {"projection_width": 24, "temperature": 0.1}
_LABELLED = functools.partial(Case, labels=CLASSES)
_LINEAR = functools.partial(_LABELLED, head=lambda: LinearHead(16, 4))
_FUSION = functools.partial(_LABELLED, head=lambda: FusionHead(16, 4))
CASES: dict[str, Case] = {
    "simcse": Case(SimCSELoss),
    "simcse pairs": Case(SimCSELoss, {"head": None}, columns=2),
    "simcse hard negatives": Case(SimCSELoss, columns=4),
    "simcse++": Case(SimCSEPlusPlusLoss),
    "focal": Case(FocalInfoNCELoss),
    "listmle": Case(RankCSELoss, labels=TEACHER),
    "listnet": Case(RankCSELoss, {"ranking": "listnet"}, labels=TEACHER),
    "rank encoder": Case(
        RankEncoderLoss, {"corpus": CORPUS, "weight": 1.0, "bounds": (-0.5, 0.99)}, labels=TEACHER
    ),
    "sncse": Case(SNCSELoss, {"weight": 1.0, "smallest": 0.5, "largest": 0.6}, columns=2),
    "esimcse": Case(ESimCSELoss, {"repetition": 0.0}),  # with repetitions, each row draws its own
    "promptbert": Case(PromptBERTLoss, prompted=True),
    # A single layer leaves nothing to draw.
    "guided base": Case(SelfGuidedLoss, {**_SMALL, "objective": "base", "layers": (1, 2)}),
    "guided opt1": Case(SelfGuidedLoss, {**_SMALL, "objective": "opt1", "layers": (1, 2)}),
    "guided opt2": Case(SelfGuidedLoss, {**_SMALL, "objective": "opt2", "layers": (1, 2)}),
    "guided opt3": Case(SelfGuidedLoss, _SMALL),
    "back-translation": Case(BackTranslationLoss, _SMALL, columns=2),
    "back-translation frozen": Case(
        BackTranslationLoss, {**_SMALL, "objective": "opt3", "view_encoder": "frozen"}, columns=2
    ),
    **{
        f"paraphrases {negatives}": Case(
            ParaphraseContrastLoss, {"negatives": negatives}, columns=2, labels=PAIRS
        )
        for negatives in ("signed", "denominator", "ignored")
    },
    "cosines": Case(CosineDistillationLoss, labels=TEACHER),
    "similarities": Case(InBatchDistillationLoss, columns=2, labels=TEACHER),
    "supcon": _LABELLED(SupConLoss),
    "supcon released": _LABELLED(SupConLoss, {"preset": "released"}),
    "supcon views": Case(SupConLoss, columns=2),
    "supcl-seq": _LABELLED(SupCLSeqLoss, {"dropouts": (0.0, 0.3, 0.3)}),
    "supcl-seq released": _LABELLED(SupCLSeqLoss, {"preset": "released"}),
    "supcl-seq unlabelled": Case(SupCLSeqLoss),
    "ce": _LINEAR(CrossEntropyLoss),
    "ce views": _LABELLED(CrossEntropyLoss, {"dropouts": (0.0, 0.1)}, head=lambda: LsanHead(16, 4)),
    "ce contrast": _LINEAR(CrossEntropyContrastLoss),
    "ce supcon": _LINEAR(CrossEntropySupConLoss),
    "ce supcon sum": _FUSION(CrossEntropySupConLoss, {"reduction": "sum"}),
    "lacon": _LABELLED(LaConLoss, {"heads": 4}, head=lambda: LabelHead(16, 4)),
    "lacon infonce": _LABELLED(LaConLoss, {"denominator": "infonce"}, head=lambda: LabelHead(16, 5)),
    "lacon all": _LABELLED(LaConLoss, {"denominator": "all"}, head=lambda: LabelHead(16, 5, layers=0)),
    "lacon fusion": _FUSION(LaConLoss),
    "leam": _LABELLED(LeamLoss, head=lambda: LeamHead(16, 4, hidden=8, dropout=0.0)),
}
CACHEABLE = [name for name, case in CASES.items() if case.loss.why_not_cached is None]


def case_of(name: str) -> Case:
    return CASES[name.removeprefix("cached ")]


def build(name: str, model: nn.Module, **options: Any) -> Any:
    """Build a loss in the precision of the model; `cached NAME` is one with a gradient cache of two rows."""
    if name.startswith("cached "):
        return GradientCache(build(name.removeprefix("cached "), model, **options), mini_batch_size=2)
    torch.manual_seed(0)
    case = CASES[name]
    prepare(case, model)
    heads = [] if case.head is None else [case.head()]
    loss = case.loss(model, *heads, **{**case.options, **options})
    return loss.to(next(model.parameters()).dtype)


def prepare(case: Case, model: Any) -> None:
    """Give a model the pooling that a case needs."""
    if case.prompted and not isinstance(model[1], MaskPooling):
        model[1] = MaskPooling(16)
        model[1].attach(model[0])


def widen(loss: Any) -> Any:
    """Move owned weights away from their small first values, so that every part of the loss counts."""
    with torch.no_grad():
        for parameter in getattr(loss, "loss", loss).owned_parameters():
            parameter.mul_(10)
    return loss


def nudge(module: nn.Module) -> None:
    """Move the trainable parameters away from a frozen copy, so that their distance is not 0."""
    torch.manual_seed(6)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn_like(parameter))


def without_dropout(model: nn.Module) -> Any:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def texts_of(name: str) -> list[list[str]]:
    """Return the text columns of a case."""
    return [TEXTS[shift:] + TEXTS[:shift] for shift in range(case_of(name).columns)]


def batch(
    name: str, model: Any, rows: slice | list[int] = slice(None), *, padding: int = 0
) -> tuple[list[dict[str, Any]], Tensor | None]:
    """Return tokenized columns and labels of some rows, with more padding than needed."""
    rows = list(range(len(TEXTS)))[rows] if isinstance(rows, slice) else rows
    columns = [model.preprocess([column[row] for row in rows]) for column in texts_of(name)]
    padded = [
        {k: nn.functional.pad(v, (0, padding)) if isinstance(v, Tensor) else v for k, v in column.items()}
        for column in columns
    ]
    labels = case_of(name).labels
    if labels is None:
        return padded, None
    dtype = next(model.parameters()).dtype
    return padded, labels[rows].to(dtype) if labels.is_floating_point() else labels[rows]


def total(value: Tensor | dict[str, Tensor]) -> Any:
    return sum(value.values()) if isinstance(value, dict) else value


def gradients(loss: nn.Module, value: Tensor) -> dict[str, Tensor]:
    """Return the gradients of the encoder and of the loss's weights by name."""
    loss.zero_grad()
    value.backward()
    return {
        name.removeprefix("loss.").replace("model.module.", "model."): p.grad.clone()
        for name, p in loss.named_parameters()
        if p.grad is not None
    }


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], *, tolerance: float = 1e-9) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=tolerance, rtol=tolerance, msg=name)
