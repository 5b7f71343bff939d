"""Worker of the tests with several processes; a separate module because the processes import it."""

from __future__ import annotations

import copy
import functools
import gc
from pathlib import Path

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, distributed, nn

from sentemb.losses import SelfGuidedLoss
from sentemb.losses.self_guided import sample_layer
from tests.losses import cases

CACHED = ("supcon", "ce supcon", "ce", "lacon fusion", "paraphrases ignored", "simcse pairs", "similarities")
NAMES = (*cases.CASES, *(f"cached {name}" for name in CACHED))
VIEWS = torch.arange(13.0).view(1, 13, 1).expand(8, 13, 1)  # each layer's view is its number
SPLITS = {3: {"three": (4, 3, 1)}, 2: {"even": (4, 4), "uneven": (5, 3)}}


@functools.cache
def _encoder(folder: Path) -> SentenceTransformer:
    model = SentenceTransformer(modules=[Transformer(str(folder)), Pooling(16, "cls")], device="cpu")
    return cases.without_dropout(model.double())


def compute(
    name: str, folder: Path, rows: slice = slice(None), *, on_ranks: bool = False
) -> dict[str, Tensor]:
    """Return the loss of some rows in float64 without dropout, and its gradients by name."""
    model = copy.deepcopy(_encoder(folder))
    loss = cases.build(name, model).eval()
    if guided := isinstance(loss, SelfGuidedLoss):
        cases.nudge(model)
    columns, labels = cases.batch(name, model, rows)
    if on_ranks:  # as transformers' trainer does; self-guidance leaves no unused parameter behind
        loss.model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=not guided)
    value = cases.total(loss(columns, labels))
    found = {"value": value.detach(), **cases.gradients(loss, value)}
    for key, tensor in found.items():
        if on_ranks and not key.startswith("model."):  # a trainer averages these, DDP does not
            distributed.all_reduce(tensor)
            tensor /= distributed.get_world_size()
    return {key: tensor.contiguous() for key, tensor in found.items()}


def run(rank: int, folder: Path, output: Path) -> None:
    """Run all cases on three processes and then on two of them; process 0 writes the results of DDP."""
    torch.set_num_threads(1)
    results = {}
    for world, splits in SPLITS.items():
        if rank >= world:
            return
        meeting = f"file://{output / f'meeting-{world}'}"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
        for split, sizes in splits.items():
            rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
            for name in NAMES:
                found = compute(name, folder, rows, on_ranks=True)
                results |= {f"{name}/{split}/{key}": tensor for key, tensor in found.items()}
        torch.manual_seed(3)
        drawn = [torch.empty(len(VIEWS), 1, 1) for _ in range(world)]
        distributed.all_gather(drawn, sample_layer(VIEWS))
        results[f"drawn/{world}"] = torch.cat(drawn)
        # A DDP wrapper that outlives the group destroys it while holding the GIL, which gloo's thread may
        # need: a deadlock.
        gc.collect()
        distributed.destroy_process_group()
    if rank == 0:
        save_file(results, output / "results.safetensors")
