"""Worker of the tests with several processes; a separate module because the processes import it."""

from __future__ import annotations

import copy
import functools
import gc
from collections.abc import Callable
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, distributed, nn

from sentemb.losses import (
    BackTranslationLoss,
    CrossEntropyContrastLoss,
    CrossEntropyLoss,
    CrossEntropySupConLoss,
    ESimCSELoss,
    FocalInfoNCELoss,
    GradientCache,
    InBatchDistillationLoss,
    LaConLoss,
    LeamLoss,
    ParaphraseContrastLoss,
    RankCSELoss,
    RankEncoderLoss,
    SelfGuidedLoss,
    SimCSELoss,
    SimCSEPlusPlusLoss,
    SNCSELoss,
    SupCLSeqLoss,
    SupConLoss,
)
from sentemb.losses.self_guided import sample_layer
from sentemb.modules import FusionHead, LabelHead, LeamHead, LinearHead

TEXTS = [
    "a cat sat on the mat", "the dog ran", "two birds fly over the house", "children eat red apple",
    "man plays guitar", "woman is sleeping in the park", "the cat is not sleeping", "a man ran in the park",
]  # fmt: skip
LABELS = [0, 1, 2, 3, 1, 0, 0, 1]  # classes 2 and 3 occur once, classes 0 and 1 lie on both processes
LABELLED: dict[str, Callable[[nn.Module], nn.Module]] = {
    "supcon": SupConLoss,
    "supcon released": functools.partial(SupConLoss, preset="released"),
    "supcl-seq": SupCLSeqLoss,
    "cached supcon": lambda model: GradientCache(SupConLoss(model), mini_batch_size=2),
    "ce supcon": lambda model: CrossEntropySupConLoss(model, LinearHead(16, 4)),
    "ce supcon sum": lambda model: CrossEntropySupConLoss(model, LinearHead(16, 4), reduction="sum"),
    "cached ce supcon": lambda model: GradientCache(
        CrossEntropySupConLoss(model, LinearHead(16, 4)), mini_batch_size=2
    ),
    "ce": lambda model: CrossEntropyLoss(model, LinearHead(16, 4)),
    "ce of two views": lambda model: CrossEntropyLoss(model, LinearHead(16, 4), dropouts=(0.0, 0.0)),
    "cached ce": lambda model: GradientCache(CrossEntropyLoss(model, LinearHead(16, 4)), mini_batch_size=2),
    "leam": lambda model: LeamLoss(model, LeamHead(16, 4)),
    "ce contrast": lambda model: CrossEntropyContrastLoss(model, LinearHead(16, 4)),
    "lacon": lambda model: LaConLoss(model, LabelHead(16, 5), heads=4),
    "lacon infonce": lambda model: LaConLoss(model, LabelHead(16, 5), denominator="infonce"),
    "lacon fusion": lambda model: LaConLoss(model, FusionHead(16, 5), denominator="all"),
    "cached lacon": lambda model: GradientCache(LaConLoss(model, FusionHead(16, 5)), mini_batch_size=2),
}
# Paraphrases on one process only; the components of texts lie on both.
PARAPHRASES = [
    [1, 1, 1], [0, 1, 2], [1, 3, 3], [0, 2, 1], [0, 4, 5], [0, 5, 1], [0, 3, 6], [0, 1, 3],
]  # fmt: skip
PAIRED: dict[str, Callable[[nn.Module], nn.Module]] = {
    "paraphrases signed": ParaphraseContrastLoss,
    "paraphrases denominator": functools.partial(ParaphraseContrastLoss, negatives="denominator"),
    "cached paraphrases ignored": lambda model: GradientCache(
        ParaphraseContrastLoss(model, negatives="ignored"), mini_batch_size=2
    ),
    "cached pairs": lambda model: GradientCache(SimCSELoss(model), mini_batch_size=2),
    "sncse": functools.partial(SNCSELoss, weight=1.0, smallest=0.5, largest=0.6),
    "teacher": InBatchDistillationLoss,
    "cached teacher": lambda model: GradientCache(InBatchDistillationLoss(model), mini_batch_size=2),
}
GUIDED: dict[str, Callable[[nn.Module], nn.Module]] = {
    **{
        objective: functools.partial(
            SelfGuidedLoss, objective=objective, layers=layers, projection_width=24, temperature=0.1
        )
        # A single layer leaves nothing to draw.
        for objective, layers in {"base": (1, 2), "opt1": (1, 2), "opt2": (1, 2), "opt3": (0, None)}.items()
    },
    "back-translation": functools.partial(BackTranslationLoss, projection_width=24, temperature=0.1),
    "back-translation opt3": functools.partial(
        BackTranslationLoss, objective="opt3", view_encoder="frozen", projection_width=24, temperature=0.1
    ),
}
SINGLE: dict[str, Callable[[nn.Module], nn.Module]] = {
    "simcse++": SimCSEPlusPlusLoss,
    "focal": FocalInfoNCELoss,
    "esimcse": ESimCSELoss,
    "listmle of a teacher": RankCSELoss,
    "listnet of a teacher": functools.partial(RankCSELoss, ranking="listnet"),
    "rank encoder of a teacher": lambda model: RankEncoderLoss(
        model, corpus=torch.randn(30, 6), weight=1.0, bounds=(-0.5, 0.99)
    ),
}
CASES = ("pairs", "hard negatives", "dropout views", *GUIDED, *LABELLED, *PAIRED, *SINGLE)
VIEWS = torch.arange(13.0).view(1, 13, 1).expand(len(TEXTS), 13, 1)  # each layer's view is its number
SPLITS = {"even": (4, 4), "uneven": (5, 3), "three": (4, 3, 1)}


@functools.cache
def load_encoder(folder: Path) -> SentenceTransformer:
    """Return the tiny encoder in float64."""
    return SentenceTransformer(modules=[Transformer(str(folder)), Pooling(16, "cls")], device="cpu").double()


def make_loss(case: str, folder: Path) -> nn.Module:
    """Build a loss in float64 without dropout, with an encoder that differs slightly from the frozen copy."""
    torch.manual_seed(0)
    model = copy.deepcopy(load_encoder(folder))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    if case in GUIDED:
        loss: nn.Module = GUIDED[case](model)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.05 * torch.randn_like(parameter))
    elif case in LABELLED:
        return LABELLED[case](model).double().eval()  # the views of SupCL-Seq have dropout otherwise
    elif case in PAIRED or case in SINGLE:
        loss = (PAIRED | SINGLE)[case](model)
    else:
        loss = SimCSELoss(model)
    return loss.double().train()


def columns(case: str, rows: slice) -> list[list[str]]:
    """Return some rows of the text columns of a case."""
    counts = {"pairs": 2, "hard negatives": 4}
    count = counts.get(case, 2 if case in PAIRED or case.startswith("back-translation") else 1)
    return [(TEXTS[shift:] + TEXTS[:shift])[rows] for shift in range(count)]


def labels(case: str, rows: slice) -> Tensor | None:
    """Return some rows of the labels of a case."""
    if case.endswith("teacher"):
        generator = torch.Generator().manual_seed(0)
        return torch.randn(len(TEXTS), 6, generator=generator, dtype=torch.float64)[rows]
    if case in PAIRED:
        return torch.tensor(PARAPHRASES[rows])
    return torch.tensor(LABELS[rows]) if case in LABELLED else None


def gradients(
    loss: nn.Module, model: nn.Module, texts: list[list[str]], classes: Tensor | None
) -> dict[str, Tensor]:
    """Return the loss and the gradients of the encoder and of the loss's weights."""
    features = [model.preprocess(column) for column in texts]
    value = loss(features, classes)
    value = sum(value.values()) if isinstance(value, dict) else value
    value.backward()
    found = {f"encoder {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    owned = getattr(loss, "loss", loss).owned_parameters()
    found |= {f"own {index}": p.grad for index, p in enumerate(owned)}
    return {"loss": value.detach(), **found}


def run(rank: int, world: int, folder: Path, output: Path) -> None:
    """Run all cases on one of several processes; process 0 writes the results of DDP."""
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{output / 'rendezvous'}", rank=rank, world_size=world
    )
    results = {}
    for case in CASES:
        for split, sizes in SPLITS.items():
            if len(sizes) != world:
                continue
            rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
            results |= {f"{case}/{split}/{name}": t for name, t in _under_ddp(case, folder, rows).items()}
    torch.manual_seed(3)
    drawn = [torch.empty(len(TEXTS), 1, 1) for _ in range(world)]
    distributed.all_gather(drawn, sample_layer(VIEWS))
    results["drawn"] = torch.cat(drawn)
    if rank == 0:
        save_file(results, output / "results.safetensors")
    # A DDP wrapper that outlives the group destroys it while holding the GIL, which gloo's thread may need: a
    # deadlock.
    gc.collect()
    distributed.destroy_process_group()


def _under_ddp(case: str, folder: Path, rows: slice) -> dict[str, Tensor]:
    loss = make_loss(case, folder)
    model = loss.model
    # As transformers' trainer does; self-guidance leaves no unused parameter behind.
    guided = isinstance(loss, SelfGuidedLoss)
    loss.model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=not guided)
    found = gradients(loss, model, columns(case, rows), labels(case, rows))
    for name, tensor in found.items():
        if not name.startswith("encoder"):  # a trainer averages these, DDP does not
            distributed.all_reduce(tensor)
            tensor /= distributed.get_world_size()
    return {name: tensor.contiguous() for name, tensor in found.items()}
