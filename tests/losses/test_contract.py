"""Check what all losses share: poolings, precision, padding, trainers, options, labels, citations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

import sentemb.losses
from sentemb._compat import Normalize
from sentemb.errors import InputError
from sentemb.losses import EncoderLoss
from sentemb.modules import LabelHead, LeamHead, LinearHead, MaskPooling, load
from tests.losses.training import TRAINERS, train_steps

CLASSES = torch.tensor([0, 1, 0, 1])


@dataclass(frozen=True)
class Case:
    """A loss with its input, what its card and citation hold, and options that it refuses.

    Attributes:
        columns: Number of text columns.
        labels: Labels of four rows; None without.
        head: Makes the classification head.
        card: Some options as the card shows them by default.
        cites: Part of the citation.
        bad: Options that are refused, with a part of the message.
        told: Message for labels that are missing; None if they are not needed.
        prompted: Whether it needs prompt pooling.
    """

    cites: str
    columns: int = 1
    labels: Tensor | None = None
    head: Callable[[], nn.Module] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    bad: tuple[tuple[dict[str, Any], str], ...] = ()
    told: str | None = None
    prompted: bool = False


GUIDED_CARD = {"temperature": 0.01, "layers": (0, 4), "drift_weight": 0.1, "preset": None}
CLASSIFIER = {
    "labels": CLASSES,
    "head": lambda: LinearHead(16, 2),
    "told": "needs labels; add a column called",
}
TEMPERATURE = ({"temperature": 0}, "temperature of {name} is 0; use a finite number above 0")
CASES: dict[str, Case] = {
    "SimCSELoss": Case(
        "2021.emnlp-main.552",
        card={"temperature": 0.05, "head": "train-only", "gather_across_devices": True},
        bad=(TEMPERATURE, ({"head": "mlp"}, "head of SimCSELoss is 'mlp'; choose one of")),
    ),
    "SimCSEPlusPlusLoss": Case(
        "2305.13192",
        card={"temperature": 0.05, "positive_weight": 1.0, "dimension_weight": 0.1, "preset": None},
        bad=(
            TEMPERATURE,
            ({"positive_weight": -1}, "positive_weight of {name} is -1"),
            ({"dimension_temperature": 0}, "dimension_temperature of {name} is 0"),
            ({"preset": "code"}, "preset of {name} is 'code'"),
        ),
    ),
    "FocalInfoNCELoss": Case(
        "2023.findings-emnlp.315",
        card={"temperature": 0.05, "margin": 0.3},
        bad=(TEMPERATURE, ({"margin": -1}, "margin of {name} is -1")),
    ),
    "RankCSELoss": Case(
        "2305.16726",
        labels=torch.eye(4, 6),
        card={"ranking": "listmle", "teacher_temperature": 0.025},
        bad=(TEMPERATURE, ({"ranking": "listwise"}, "ranking of {name} is 'listwise'; choose one of")),
        told="needs labels, the teacher's vectors",
    ),
    "RankEncoderLoss": Case(
        "2209.04333",
        labels=torch.eye(4, 6) + 0.5,
        options={"corpus": torch.eye(6)},
        card={"weight": 0.05, "bounds": (0.5, 0.9999), "corpus": 6},
        bad=(TEMPERATURE, ({"bounds": 0.5}, "bounds of {name} are 0.5"), ({"form": "sncse"}, "form of")),
        told="needs labels, the teacher's vectors",
    ),
    "PromptBERTLoss": Case(
        "2201.04337",
        card={"temperature": 0.05, "head": "train-only", "preset": None},
        bad=(TEMPERATURE, ({"second_template": "It means {mask}."}, "the template is 'It means {{mask}}.'")),
        prompted=True,
    ),
    "SNCSELoss": Case(
        "2201.05979",
        columns=2,
        card={"weight": 1e-3, "smallest": 0.1, "largest": 0.3},
        bad=(TEMPERATURE, ({"largest": 0.05}, "largest of {name} is 0.05; use a finite number at least 0.1")),
    ),
    "ESimCSELoss": Case(
        "2109.04380",
        card={"repetition": 0.32, "queue_size": 160, "momentum": 0.995, "preset": None},
        bad=(
            TEMPERATURE,
            ({"queue_size": -1}, "queue_size of {name} is -1"),
            ({"momentum": 1.5}, "momentum of {name} is 1.5"),
        ),
    ),
    "SelfGuidedLoss": Case(
        "2021.acl-long.197",
        options={"projection_width": 24},
        card={**GUIDED_CARD, "objective": "opt3", "views": "cached", "projection_width": 24},
        bad=(
            ({"objective": "opt4"}, "objective of SelfGuidedLoss is 'opt4'"),
            ({"views": "disk"}, "views of SelfGuidedLoss is 'disk'"),
            ({"preset": "paper"}, "preset of SelfGuidedLoss is 'paper'"),
            TEMPERATURE,
            ({"temperature": float("nan")}, "temperature"),
            ({"temperature": "0.1"}, "temperature"),
            ({"temperature": None}, "temperature"),
            ({"drift_weight": -1.0}, "drift_weight of SelfGuidedLoss is -1.0; use a finite number at"),
            ({"projection_width": 0}, "projection_width"),
            ({"projection_width": 8.5}, "projection_width"),
            ({"projection_width": 10**6}, "projection_width of SelfGuidedLoss: more than 1,000 million"),
            *(({"layers": bad}, "hidden states 0 to 3") for bad in ((2, 2), (-1, None), (0, 5), (1,), None)),
        ),
    ),
    "BackTranslationLoss": Case(
        "2021.acl-long.197",
        columns=2,
        options={"projection_width": 24},
        card={**GUIDED_CARD, "objective": "base", "views": "online", "view_encoder": "trained"},
        bad=(
            ({"objective": "opt3"}, "opt3 needs several; set view_encoder='frozen'"),
            ({"view_encoder": "both"}, "view_encoder of BackTranslationLoss is 'both'; choose one of"),
        ),
    ),
    "ParaphraseContrastLoss": Case(
        "CS224N",
        columns=2,
        labels=CLASSES,
        card={"temperature": 0.05, "negatives": "signed", "head": "two-layer"},
        bad=(
            TEMPERATURE,
            ({"negatives": "all"}, "negatives of ParaphraseContrastLoss is 'all'"),
            ({"head": "mlp"}, "head of ParaphraseContrastLoss is 'mlp'"),
        ),
        told="needs labels; add a column called label to the data, with 1 for a paraphrase",
    ),
    "CosineDistillationLoss": Case("Knowledge Distillation", labels=torch.eye(4, 16), told="needs labels"),
    "InBatchDistillationLoss": Case(
        "Tightly-Coupled Teachers",
        columns=2,
        labels=torch.eye(4, 6),
        card={"temperature": 0.05},
        bad=(TEMPERATURE,),
        told="got no labels for 4 rows",
    ),
    "SupConLoss": Case(
        "Supervised Contrastive Learning",
        labels=CLASSES,
        card={"temperature": 0.07, "preset": None},
        bad=(TEMPERATURE, ({"preset": "paper"}, "preset of SupConLoss is 'paper'; choose one of")),
        told="needs labels or a second view",
    ),
    "SupCLSeqLoss": Case(
        "2021.findings-emnlp.289",
        labels=CLASSES,
        card={"dropouts": (0.0, 0.1, 0.2), "temperature": 0.05, "preset": None},
        bad=(
            TEMPERATURE,
            ({"dropouts": (0.1, 1.5)}, "dropouts of SupCLSeqLoss"),
            ({"preset": "code"}, "preset of SupCLSeqLoss is 'code'; choose one of"),
        ),
    ),
    "CrossEntropyLoss": Case(
        "N19-1423",
        **CLASSIFIER,
        card={"head": "LinearHead", "dropouts": None},
        bad=(({"dropouts": (2.0,)}, "dropouts of CrossEntropyLoss"),),
    ),
    "CrossEntropyContrastLoss": Case(
        "2021.acl-long.393",
        **CLASSIFIER,
        card={"head": "LinearHead", "weight": 0.15, "temperature": 0.1},
        bad=(TEMPERATURE, ({"weight": -1}, "weight of CrossEntropyContrastLoss is -1")),
    ),
    "CrossEntropySupConLoss": Case(
        "2011.01403",
        **CLASSIFIER,
        card={"temperature": 0.3, "weight": 0.9, "reduction": "mean"},
        bad=(
            TEMPERATURE,
            ({"weight": 1.5}, "weight of CrossEntropySupConLoss is 1.5; set the weight of the contrastive"),
            ({"weight": -0.1}, "weight of CrossEntropySupConLoss is -0.1"),
            ({"reduction": "none"}, "reduction of CrossEntropySupConLoss is 'none'; choose one of"),
        ),
    ),
    "LaConLoss": Case(
        "2022.naacl-main.103",
        labels=CLASSES,
        head=lambda: LabelHead(16, 2),
        card={"head": "LabelHead", "heads": 1, "ler_weight": 0.5},
        bad=(
            ({"heads": 5}, "LaConLoss cannot divide the head's width of 16 among 5 heads; set heads"),
            ({"heads": 0}, "heads of LaConLoss is 0; use an integer at least 1"),
            ({"heads": 10**400}, "heads of LaConLoss is 10+; use an integer"),
            ({"ler_weight": -0.1}, "ler_weight of LaConLoss is -0.1"),
            ({"denominator": "positives"}, "denominator of LaConLoss is 'positives'; choose one of"),
        ),
        told="needs labels; add a column called",
    ),
    "LeamLoss": Case(
        "P18-1216",
        labels=CLASSES,
        head=lambda: LeamHead(16, 2),
        card={"head": "LeamHead"},
        told="needs labels; add a column called",
    ),
}  # fmt: skip


def build(name: str, model: nn.Module, **options: Any) -> EncoderLoss:
    torch.manual_seed(5)
    case = CASES[name]
    if case.prompted:
        model[1] = MaskPooling(16)
        model[1].attach(model[0])
    heads = [] if case.head is None else [case.head()]
    loss = getattr(sentemb.losses, name)(model, *heads, **{**case.options, **options})
    return loss.to(next(model.parameters()).dtype)


def columns_of(name: str, model: Any, sentences: Any, *, padding: int = 0) -> list[dict[str, Any]]:
    columns = [model.preprocess(sentences(4, seed=seed)) for seed in range(CASES[name].columns)]
    return [
        {
            key: nn.functional.pad(value, (0, padding)) if isinstance(value, Tensor) else value
            for key, value in column.items()
        }
        for column in columns
    ]


def total(value: Tensor | dict[str, Tensor]) -> Tensor:
    return sum(value.values()) if isinstance(value, dict) else value


def test_every_loss_has_a_case() -> None:
    losses = {name for name in dir(sentemb.losses) if name.endswith("Loss")}
    assert losses - {"EncoderLoss"} == CASES.keys()


@pytest.mark.parametrize("normalised", [False, True], ids=["", "normalised"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize("name", CASES)
def test_defaults_train_the_encoder_as_it_is(tiny_bert, sentences, name, pooling, normalised) -> None:
    torch.manual_seed(0)
    modules = [*load(tiny_bert, pooling=pooling, device="cpu"), *([Normalize()] if normalised else [])]
    model = SentenceTransformer(modules=modules, device="cpu").train()
    value = total(build(name, model)(columns_of(name, model, sentences), CASES[name].labels))
    value.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert value.isfinite()
    assert any(bool(gradient.any()) for gradient in gradients)
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CASES)
def test_half_precision_is_finite(tiny_encoder, sentences, name, dtype) -> None:
    loss = build(name, tiny_encoder).train()
    with torch.autocast("cpu", dtype):
        value = total(loss(columns_of(name, tiny_encoder, sentences), CASES[name].labels))
    value.backward()
    assert value.isfinite()
    assert value.dtype == torch.float32
    assert all(p.grad.isfinite().all() for p in loss.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", CASES)
def test_padding_changes_nothing_and_features_stay_as_they_were(encoder64, sentences, name) -> None:
    loss = build(name, encoder64).eval()
    for module in encoder64.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    plain, padded = (columns_of(name, encoder64, sentences, padding=padding) for padding in (0, 9))
    before = copy.deepcopy(plain)
    labels = CASES[name].labels
    labels = labels.double() if labels is not None and labels.is_floating_point() else labels
    values = []
    for columns in (padded, plain):
        torch.manual_seed(3)  # of losses that draw views
        values.append(loss(columns, labels))
    torch.testing.assert_close(*values, atol=1e-9, rtol=1e-9)
    assert [column.keys() for column in plain] == [column.keys() for column in before]


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("name", CASES)
def test_trains_in_every_trainer(tiny_encoder, sentences, tmp_path: Path, name, trainer) -> None:
    case, loss = CASES[name], build(name, tiny_encoder)
    labels = CLASSES if case.labels is None else case.labels
    data: dict[str, list] = {str(number): sentences(12, seed=number) for number in range(case.columns)}
    before = loss.head_state()
    train_steps(trainer, tiny_encoder, loss, data | {"label": labels.tolist() * 3}, tmp_path)
    after = loss.head_state()
    assert all(not torch.equal(before[key], after[key]) for key in before if key.startswith("head"))


@pytest.mark.parametrize("name", CASES)
def test_state_of_the_loss_comes_back(tiny_encoder, name) -> None:
    first, second = build(name, tiny_encoder), build(name, tiny_encoder)
    with torch.no_grad():
        for parameter in first.owned_parameters():
            parameter.add_(1)
    second.load_head_state(first.head_state())
    for one, other in zip(first.owned_parameters(), second.owned_parameters(), strict=True):
        assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()
    assert {key for key in first.head_state() if key.startswith("head.")} == {
        key for key in dict(first.named_parameters()) if key.startswith("head.")
    }


@pytest.mark.parametrize("name", CASES)
def test_card_has_the_options_and_the_citation(tiny_encoder, name) -> None:
    loss, case = build(name, tiny_encoder), CASES[name]
    config = loss.get_config_dict()
    assert {key: config[key] for key in case.card} == case.card
    assert case.cites in loss.citation
    assert loss.citation.startswith("@")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [(name, options, message) for name, case in CASES.items() for options, message in case.bad],
)
def test_bad_options_are_refused(tiny_encoder, name, options, message) -> None:
    with pytest.raises(InputError, match=message.format(name=name)):
        build(name, tiny_encoder, **options)
    assert all(p.requires_grad for p in tiny_encoder.parameters())


@pytest.mark.parametrize("name", CASES)
def test_other_columns_and_labels_are_refused(tiny_encoder, sentences, name) -> None:
    case, loss = CASES[name], build(name, tiny_encoder)
    columns = columns_of(name, tiny_encoder, sentences)
    if name not in ("SimCSELoss", "SupConLoss", "FocalInfoNCELoss"):  # which take any number of columns
        with pytest.raises(InputError, match="text column"):
            loss([*columns, columns[0]], case.labels)
    if case.told is not None:
        with pytest.raises(InputError, match=case.told):
            loss(columns, None)
        with pytest.raises(InputError, match=r"(labels|teacher vectors) of shape"):
            loss(columns, case.labels[:2])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.head is not None])
def test_labels_and_heads_that_do_not_fit_are_refused(tiny_encoder, sentences, name) -> None:
    loss, columns = build(name, tiny_encoder), columns_of(name, tiny_encoder, sentences)
    for labels, message in (
        (torch.tensor([0, 1, 2, 1]), f"{name} got the label 2, but the head has the classes 0 to 1"),
        (torch.tensor([0, -1, 0, 1]), "got the label -1"),
        (torch.tensor([0.0, 1.0, 0.0, 1.0]), "integer labels"),
    ):
        with pytest.raises(InputError, match=message):
            loss(columns, labels)
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module, but got 3; use a head such as"):
        getattr(sentemb.losses, name)(tiny_encoder, 3)
