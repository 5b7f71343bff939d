"""Check what all losses share: precision, batches, trainers, processes, options, labels, citations."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn

import sentemb.losses
import tests.processes  # noqa: F401  # the server of processes imports what they need, once for all tests
from sentemb._compat import Normalize
from sentemb.errors import InputError
from sentemb.losses.self_guided import sample_layer
from sentemb.losses.views import gather_rows
from sentemb.modules import load
from tests.losses import ddp
from tests.losses.cases import CASES, CLASSES, CORPUS, batch, build, prepare, texts_of, total, without_dropout
from tests.losses.training import TRAINERS, train_steps


@dataclass(frozen=True)
class Contract:
    """Hold what a loss shows and refuses.

    Attributes:
        case: Its name in `CASES`, which has what the loss reads.
        cites: Part of the citation.
        needed: Options to build it with.
        card: Some options as the card shows them by default.
        bad: Options that are refused, with a part of the message.
        told: Message for labels that are missing; None if they are not needed.
    """

    case: str
    cites: str
    needed: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    bad: tuple[tuple[dict[str, Any], str], ...] = ()
    told: str | None = None


SMALL = {"projection_width": 24}
GUIDED_CARD = {"temperature": 0.01, "layers": (0, 4), "drift_weight": 0.1, "preset": None}
LABELS = "needs labels; add a column called"
TEMPERATURE = ({"temperature": 0}, "temperature of {name} is 0; use a finite number above 0")
CONTRACTS = {
    "SimCSELoss": Contract(
        "simcse",
        "2021.emnlp-main.552",
        card={"temperature": 0.05, "head": "train-only", "gather_across_devices": True},
        bad=(TEMPERATURE, ({"head": "mlp"}, "head of SimCSELoss is 'mlp'; choose one of")),
    ),
    "SimCSEPlusPlusLoss": Contract(
        "simcse++",
        "2305.13192",
        card={"temperature": 0.05, "positive_weight": 1.0, "dimension_weight": 0.1, "preset": None},
        bad=(
            TEMPERATURE,
            ({"positive_weight": -1}, "positive_weight of {name} is -1"),
            ({"dimension_temperature": 0}, "dimension_temperature of {name} is 0"),
            ({"preset": "code"}, "preset of {name} is 'code'"),
        ),
    ),
    "FocalInfoNCELoss": Contract(
        "focal",
        "2023.findings-emnlp.315",
        card={"temperature": 0.05, "margin": 0.3},
        bad=(TEMPERATURE, ({"margin": -1}, "margin of {name} is -1")),
    ),
    "RankCSELoss": Contract(
        "listmle",
        "2305.16726",
        card={"ranking": "listmle", "teacher_temperature": 0.025},
        bad=(TEMPERATURE, ({"ranking": "listwise"}, "ranking of {name} is 'listwise'; choose one of")),
        told="needs labels, the teacher's vectors",
    ),
    "RankEncoderLoss": Contract(
        "rank encoder",
        "2209.04333",
        needed={"corpus": CORPUS},
        card={"weight": 0.05, "bounds": (0.5, 0.9999), "corpus": 30},
        bad=(TEMPERATURE, ({"bounds": 0.5}, "bounds of {name} are 0.5"), ({"form": "sncse"}, "form of")),
        told="needs labels, the teacher's vectors",
    ),
    "SNCSELoss": Contract(
        "sncse",
        "2201.05979",
        card={"weight": 1e-3, "smallest": 0.1, "largest": 0.3},
        bad=(TEMPERATURE, ({"largest": 0.05}, "largest of {name} is 0.05; use a finite number at least 0.1")),
    ),
    "ESimCSELoss": Contract(
        "esimcse",
        "2109.04380",
        card={"repetition": 0.32, "queue_size": 160, "momentum": 0.995, "preset": None},
        bad=(
            TEMPERATURE,
            ({"queue_size": -1}, "queue_size of {name} is -1"),
            ({"momentum": 1.5}, "momentum of {name} is 1.5"),
        ),
    ),
    "PromptBERTLoss": Contract(
        "promptbert",
        "2201.04337",
        card={"temperature": 0.05, "head": "train-only", "preset": None},
        bad=(TEMPERATURE, ({"second_template": "It means {mask}."}, "the template is 'It means {{mask}}.'")),
    ),
    "SelfGuidedLoss": Contract(
        "guided opt3",
        "2021.acl-long.197",
        needed=SMALL,
        card={**GUIDED_CARD, "objective": "opt3", "views": "cached", "projection_width": 24},
        bad=(
            ({"objective": "opt4"}, "objective of SelfGuidedLoss is 'opt4'"),
            ({"views": "disk"}, "views of SelfGuidedLoss is 'disk'"),
            ({"preset": "paper"}, "preset of SelfGuidedLoss is 'paper'"),
            TEMPERATURE,
            *(({"temperature": bad}, "temperature") for bad in (float("nan"), "0.1", None)),
            ({"drift_weight": -1.0}, "drift_weight of SelfGuidedLoss is -1.0; use a finite number at"),
            *(({"projection_width": bad}, "projection_width") for bad in (0, 8.5)),
            ({"projection_width": 10**6}, "projection_width of SelfGuidedLoss: more than 1,000 million"),
            *(({"layers": bad}, "hidden states 0 to 3") for bad in ((2, 2), (-1, None), (0, 5), (1,), None)),
        ),
    ),
    "BackTranslationLoss": Contract(
        "back-translation",
        "2021.acl-long.197",
        needed=SMALL,
        card={**GUIDED_CARD, "objective": "base", "views": "online", "view_encoder": "trained"},
        bad=(
            ({"objective": "opt3"}, "opt3 needs several; set view_encoder='frozen'"),
            ({"view_encoder": "both"}, "view_encoder of BackTranslationLoss is 'both'; choose one of"),
        ),
    ),
    "ParaphraseContrastLoss": Contract(
        "paraphrases signed",
        "CS224N",
        card={"temperature": 0.05, "negatives": "signed", "head": "two-layer"},
        bad=(
            TEMPERATURE,
            ({"negatives": "all"}, "negatives of ParaphraseContrastLoss is 'all'"),
            ({"head": "mlp"}, "head of ParaphraseContrastLoss is 'mlp'"),
        ),
        told="needs labels; add a column called label to the data, with 1 for a paraphrase",
    ),
    "CosineDistillationLoss": Contract("cosines", "Knowledge Distillation", told="needs labels"),
    "InBatchDistillationLoss": Contract(
        "similarities",
        "Tightly-Coupled Teachers",
        card={"temperature": 0.05},
        bad=(TEMPERATURE,),
        told="got no labels for 8 rows",
    ),
    "SupConLoss": Contract(
        "supcon",
        "Supervised Contrastive Learning",
        card={"temperature": 0.07, "preset": None},
        bad=(TEMPERATURE, ({"preset": "paper"}, "preset of SupConLoss is 'paper'; choose one of")),
        told="needs labels or a second view",
    ),
    "SupCLSeqLoss": Contract(
        "supcl-seq",
        "2021.findings-emnlp.289",
        card={"dropouts": (0.0, 0.1, 0.2), "temperature": 0.05, "preset": None},
        bad=(
            TEMPERATURE,
            ({"dropouts": (0.1, 1.5)}, "dropouts of SupCLSeqLoss"),
            ({"preset": "code"}, "preset of SupCLSeqLoss is 'code'; choose one of"),
        ),
    ),
    "CrossEntropyLoss": Contract(
        "ce",
        "N19-1423",
        card={"head": "LinearHead", "dropouts": None},
        bad=(({"dropouts": (2.0,)}, "dropouts of CrossEntropyLoss"),),
        told=LABELS,
    ),
    "CrossEntropyContrastLoss": Contract(
        "ce contrast",
        "2021.acl-long.393",
        card={"head": "LinearHead", "weight": 0.15, "temperature": 0.1},
        bad=(TEMPERATURE, ({"weight": -1}, "weight of CrossEntropyContrastLoss is -1")),
        told=LABELS,
    ),
    "CrossEntropySupConLoss": Contract(
        "ce supcon",
        "2011.01403",
        card={"temperature": 0.3, "weight": 0.9, "reduction": "mean"},
        bad=(
            TEMPERATURE,
            ({"weight": 1.5}, "weight of CrossEntropySupConLoss is 1.5; set the weight of the contrastive"),
            ({"weight": -0.1}, "weight of CrossEntropySupConLoss is -0.1"),
            ({"reduction": "none"}, "reduction of CrossEntropySupConLoss is 'none'; choose one of"),
        ),
        told=LABELS,
    ),
    "LaConLoss": Contract(
        "lacon",
        "2022.naacl-main.103",
        card={"head": "LabelHead", "heads": 1, "ler_weight": 0.5},
        bad=(
            ({"heads": 5}, "LaConLoss cannot divide the head's width of 16 among 5 heads; set heads"),
            ({"heads": 0}, "heads of LaConLoss is 0; use an integer at least 1"),
            ({"heads": 10**400}, "heads of LaConLoss is 10+; use an integer"),
            ({"ler_weight": -0.1}, "ler_weight of LaConLoss is -0.1"),
            ({"denominator": "positives"}, "denominator of LaConLoss is 'positives'; choose one of"),
        ),
        told=LABELS,
    ),
    "LeamLoss": Contract("leam", "P18-1216", card={"head": "LeamHead"}, told=LABELS),
}


def make(name: str, model: nn.Module, **options: Any) -> Any:
    """Build a loss with its default options."""
    torch.manual_seed(5)
    contract = CONTRACTS[name]
    prepare(CASES[contract.case], model)
    head = CASES[contract.case].head
    heads = [] if head is None else [head()]
    return getattr(sentemb.losses, name)(model, *heads, **{**contract.needed, **options})


MANY = ("SimCSELoss", "SupConLoss", "FocalInfoNCELoss")  # take any number of columns
every_loss = pytest.mark.parametrize("name", CONTRACTS)
every_case = pytest.mark.parametrize("name", CASES)


def test_every_loss_has_a_case() -> None:
    losses = {name for name in dir(sentemb.losses) if name.endswith("Loss")}
    assert losses - {"EncoderLoss"} == CONTRACTS.keys() == {case.loss.__name__ for case in CASES.values()}


@pytest.mark.parametrize("normalised", [False, True], ids=["", "normalised"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@every_loss
def test_defaults_train_the_encoder_as_it_is(tiny_encoder, name, pooling, normalised) -> None:
    modules = [tiny_encoder[0], Pooling(16, pooling), *([Normalize()] if normalised else [])]
    model = SentenceTransformer(modules=modules, device="cpu").train()
    value = total(make(name, model)(*batch(CONTRACTS[name].case, model)))
    value.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert value.isfinite()
    assert any(bool(gradient.any()) for gradient in gradients)
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


@every_case
def test_precision(tiny_encoder, name) -> None:
    """Half precision is finite, and float32 agrees with float64."""
    loss = build(name, without_dropout(tiny_encoder))
    for dtype in (torch.bfloat16, torch.float16):
        loss.train().zero_grad()
        with torch.autocast("cpu", dtype):
            value = total(loss(*batch(name, tiny_encoder)))
        value.backward()
        assert value.isfinite()
        assert value.dtype == torch.float32
        assert all(p.grad.isfinite().all() for p in loss.parameters() if p.grad is not None)
    single = total(loss.eval()(*batch(name, tiny_encoder))).double()
    torch.testing.assert_close(single, total(loss.double()(*batch(name, tiny_encoder))), atol=1e-5, rtol=1e-5)


@every_case
def test_padding_and_order_change_nothing(encoder64, name) -> None:
    loss = build(name, without_dropout(encoder64)).eval()
    columns, labels = batch(name, encoder64)
    before = copy.deepcopy(columns)
    expected = loss(columns, labels)
    assert [column.keys() for column in columns] == [column.keys() for column in before]
    for rows, padding in ((slice(None), 9), ([3, 7, 1, 0, 6, 2, 5, 4], 0)):
        found = loss(*batch(name, encoder64, rows, padding=padding))
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@every_case
def test_small_batches_and_repeated_texts_are_finite(tiny_encoder, name) -> None:
    loss = build(name, tiny_encoder).train()
    for rows in ([0], [0, 1], [2, 2, 2, 3]):
        columns, labels = batch(name, tiny_encoder, rows)
        for some in (columns, [columns[0]] * len(columns)):  # also texts that are equal in all columns
            loss.zero_grad()
            value = total(loss(some, labels))
            value.backward()
            assert value.isfinite()
            assert all(p.grad.isfinite().all() for p in loss.parameters() if p.grad is not None)


@pytest.mark.parametrize("trainer", TRAINERS)
@every_loss
def test_trains_in_every_trainer_and_leaves_a_native_model(tiny_encoder, tmp_path, name, trainer) -> None:
    case, loss = CONTRACTS[name].case, make(name, tiny_encoder)
    labels = CASES[case].labels
    labels = CLASSES if labels is None else labels
    columns = {str(number): column + column[:4] for number, column in enumerate(texts_of(case))}
    before = loss.head_state()
    train_steps(
        trainer, tiny_encoder, loss, {**columns, "label": labels[[*range(8), *range(4)]].tolist()}, tmp_path
    )
    after = loss.head_state()
    assert all(not torch.equal(before[key], after[key]) for key in before if key.startswith("head"))
    if trainer == "sentemb":
        tiny_encoder.save(str(tmp_path / "model"))
        open_model = load if CASES[case].prompted else SentenceTransformer
        restored = open_model(str(tmp_path / "model"), device="cpu")
        assert [type(module) for module in restored] == [type(module) for module in tiny_encoder]
        assert not restored[0].model.config.output_hidden_states


@pytest.mark.parametrize("name", ["supcon views", "supcl-seq unlabelled"])
def test_trains_without_labels(tiny_encoder, tmp_path, name) -> None:
    columns: dict[str, list] = {str(number): column for number, column in enumerate(texts_of(name))}
    train_steps("sentemb", tiny_encoder, build(name, tiny_encoder), columns, tmp_path)


@pytest.fixture(scope="module")
def on_ranks(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """Return losses and gradients of every case on two and on three gloo processes."""
    output = tmp_path_factory.mktemp("ddp")
    torch.multiprocessing.start_processes(
        ddp.run, args=(tiny_bert, output), nprocs=3, start_method="forkserver"
    )
    return load_file(output / "results.safetensors")


@pytest.mark.parametrize("name", ddp.NAMES)
def test_processes_give_the_loss_and_gradient_of_one(on_ranks, tiny_bert, name) -> None:
    expected = ddp.compute(name, tiny_bert)
    assert len(expected) > 30
    for split in (split for splits in ddp.SPLITS.values() for split in splits):
        prefix = f"{name}/{split}/"
        found = {key.removeprefix(prefix): t for key, t in on_ranks.items() if key.startswith(prefix)}
        # Under find_unused_parameters DDP gives zeros to what has no part in the loss.
        assert all(found[key].eq(0).all() for key in found.keys() - expected.keys())
        for key, tensor in expected.items():
            torch.testing.assert_close(found[key], tensor, atol=1e-9, rtol=1e-9, msg=f"{split} {key}")


def test_processes_draw_different_layers_that_together_are_those_of_one(on_ranks) -> None:
    drawn = on_ranks["drawn/2"]
    assert not torch.equal(*drawn.chunk(2))
    torch.manual_seed(3)
    assert torch.equal(drawn, sample_layer(torch.cat([ddp.VIEWS, ddp.VIEWS])))


@pytest.mark.parametrize("across_devices", [True, False])
def test_one_process_keeps_its_rows(across_devices: bool) -> None:
    rows = torch.randn(3, 2)
    gathered = gather_rows(rows, across_devices=across_devices)
    assert gathered.rows is rows
    assert gathered.anchors == slice(0, 3)
    assert gathered.weight == 1


@every_loss
def test_state_of_the_loss_comes_back(tiny_encoder, name) -> None:
    first, second = make(name, tiny_encoder), make(name, tiny_encoder)
    with torch.no_grad():
        for parameter in first.owned_parameters():
            parameter.add_(1)
    second.load_head_state(first.head_state())
    for one, other in zip(first.owned_parameters(), second.owned_parameters(), strict=True):
        assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()
    assert {key for key in first.head_state() if key.startswith("head.")} == {
        key for key in dict(first.named_parameters()) if key.startswith("head.")
    }


@every_loss
def test_card_has_the_options_and_the_citation(tiny_encoder, name) -> None:
    loss, contract = make(name, tiny_encoder), CONTRACTS[name]
    config = loss.get_config_dict()
    assert {key: config[key] for key in contract.card} == contract.card
    assert contract.cites in loss.citation
    assert loss.citation.startswith("@")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [(name, options, message) for name, contract in CONTRACTS.items() for options, message in contract.bad],
)
def test_bad_options_are_refused(tiny_encoder, name, options, message) -> None:
    with pytest.raises(InputError, match=message.format(name=name)):
        make(name, tiny_encoder, **options)
    assert all(p.requires_grad for p in tiny_encoder.parameters())


@every_loss
def test_other_columns_and_labels_are_refused(tiny_encoder, name) -> None:
    contract, loss = CONTRACTS[name], make(name, tiny_encoder)
    columns, labels = batch(contract.case, tiny_encoder)
    others = [] if name in MANY else [[*columns, columns[0]]]
    for some in others + ([columns[:1]] if len(columns) > 1 else []):
        with pytest.raises(InputError, match="text column"):
            loss(some, labels)
    if contract.told is not None:
        assert labels is not None
        with pytest.raises(InputError, match=contract.told):
            loss(columns, None)
        with pytest.raises(InputError, match=r"(labels|teacher vectors) of shape"):
            loss(columns, labels[:2])


@pytest.mark.parametrize(
    "name", [name for name, one in CONTRACTS.items() if CASES[one.case].head is not None]
)
def test_labels_and_heads_that_do_not_fit_are_refused(tiny_encoder, name) -> None:
    loss, (columns, labels) = make(name, tiny_encoder), batch(CONTRACTS[name].case, tiny_encoder)
    for bad, message in (
        (labels + 1, f"{name} got the label 4, but the head has the classes 0 to 3"),
        (labels - 1, "got the label -1"),
        (labels.float(), "integer labels"),
    ):
        with pytest.raises(InputError, match=message):
            loss(columns, bad)
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module, but got 3; use a head such as"):
        getattr(sentemb.losses, name)(tiny_encoder, 3)


@pytest.mark.parametrize("name", ["supcon", "ce supcon"])
def test_few_positives_are_warned_about_once_and_in_training_only(tiny_encoder, caplog, name) -> None:
    columns, _ = batch(name, tiny_encoder, [0, 1, 2, 3, 4])
    few, enough = torch.tensor([0, 0, 1, 2, 3]), torch.tensor([0, 0, 1, 1, 3])
    loss = build(name, tiny_encoder)
    with caplog.at_level(logging.WARNING):
        with torch.no_grad():
            loss(columns, few)
        assert not caplog.text
        for _ in range(2):
            loss(columns, few)
        assert caplog.text.count("only 40 % of the anchors of the first batch have a positive") == 1
        caplog.clear()
        build(name, tiny_encoder)(columns, enough)
    assert not caplog.text
