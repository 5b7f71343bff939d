"""Share what losses do with encoders and batches: training heads, views by dropout, rows of all processes.

Heads belong to the loss, so a saved model never contains them. In-batch negatives of all processes follow the
convention of sentence-transformers: each process compares its local anchors with the candidates of all. Its
loss is a mean, weighted so that the average over processes, which DDP takes of the gradients, equals the loss
of a single process with the whole batch. A factor of the world size is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, distributed, nn

from sentemb._compat import (
    Pooling,
    Transformer,
    all_gather_with_grad,
    get_rank,
    get_world_size,
    merge_feature_batches,
)
from sentemb.errors import InputError

_INITIAL_DEVIATION = 0.02  # BERT's initializer_range, which the papers' code draws the heads from


def unwrap(model: nn.Module) -> nn.Module:
    """Return the SentenceTransformer inside DDP and `torch.compile` wrappers."""
    while True:
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def transformer_module(model: nn.Module, *, loss: str) -> Transformer:
    """Return the first module of a model, which holds the transformer and its tokenizer."""
    first = next(unwrap(model).children(), None)
    if not isinstance(first, Transformer):
        raise InputError(
            f"{loss} needs a transformer encoder, but this model starts with {type(first).__name__}",
            "build the encoder from a transformer base model",
        )
    return first


def pooling_names(model: nn.Module) -> tuple[str, ...] | None:
    """Return the names of the model's poolings; None if it does not have a pooling module."""
    for module in unwrap(model).children():
        if isinstance(module, Pooling):
            mode = module.pooling_mode
            return (mode,) if isinstance(mode, str) else tuple(mode)
    return None


def build_head(model: nn.Module, kind: Literal["train-only", "two-layer"]) -> nn.Sequential:
    """Build a new head for the sentence vectors of a model, on its device.

    `train-only` is that of unsupervised SimCSE. `two-layer` is that of the CS224N project's contrastive
    training (its section 4.1), which does not name the activation; SimCLR, which it cites, has a ReLU.
    """
    width = int(unwrap(model).get_embedding_dimension())  # type: ignore[operator]
    if kind == "train-only":
        head = nn.Sequential(nn.Linear(width, width), nn.Tanh())
    else:
        head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    return initialize_head(head).to(next(model.parameters()).device)


def initialize_head(head: nn.Sequential) -> nn.Sequential:
    """Draw the weights of all linear layers from N(0, 0.02), with biases of 0."""
    for module in head:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
            nn.init.zeros_(module.bias)
    return head


def project(head: nn.Module | None, vectors: Tensor) -> Tensor:
    """Apply a head in the dtype of its weights; without a head, return the vectors unchanged."""
    return vectors if head is None else head(vectors.to(dtype_of(head)))


def dtype_of(module: nn.Module) -> torch.dtype:
    """Return the dtype of a module's weights, which its input must have outside autocast."""
    return next(module.parameters()).dtype


class View(NamedTuple):
    """Tokenized texts and the dropout probability to encode them with; None is the encoder's own."""

    features: dict[str, Any]
    dropout: float | None = None


@contextmanager
def dropout_probability(model: nn.Module, probability: float | None) -> Iterator[None]:
    """Set all dropouts of an encoder to one probability, and restore the previous ones on exit."""
    if probability is None:
        yield
        return
    places = dropout_places(model)
    if model.training and any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        raise InputError(
            "views with different dropout probabilities do not work with gradient checkpointing, "
            "which would recompute layers with another dropout",
            "disable gradient checkpointing; GradientCache saves more memory",
        )
    before = [getattr(module, name) for module, name in places]
    try:
        for module, name in places:
            setattr(module, name, probability)
        yield
    finally:
        for (module, name), value in zip(places, before, strict=True):
            setattr(module, name, value)


def dropout_places(model: nn.Module) -> list[tuple[nn.Module, str]]:
    """Return the modules and attributes that hold an encoder's dropout probabilities.

    Most are `nn.Dropout` modules, including those whose `p` BERT's attention passes to the fused kernel.
    Newer architectures store a plain number (`attention_dropout` of ModernBERT and Qwen).
    """
    places: list[tuple[nn.Module, str]] = []
    for module in unwrap(model).modules():
        if isinstance(module, nn.Dropout):
            places.append((module, "p"))
            continue
        for name, value in vars(module).items():
            if name.endswith("dropout") and type(value) in (int, float):
                places.append((module, name))
    return places


def check_dropouts(loss: nn.Module, dropouts: object) -> tuple[float, ...]:
    """Return the dropout probabilities; raise InputError if views cannot be encoded with them."""
    probabilities = dropouts if isinstance(dropouts, list | tuple) else ()
    numbers = [one for one in probabilities if isinstance(one, int | float) and not isinstance(one, bool)]
    if not numbers or len(numbers) < len(probabilities) or not all(0 <= one < 1 for one in numbers):
        raise InputError(
            f"dropouts of {type(loss).__name__} are {dropouts!r}",
            "set one probability for each view, at least 0 and below 1, such as (0.0, 0.1, 0.2)",
        )
    if not dropout_places(loss.model):  # type: ignore[arg-type]
        raise InputError(
            f"{type(loss).__name__} creates views by dropout, but this encoder does not have dropout",
            "train a transformer encoder",
        )
    return tuple(map(float, numbers))


def encode_views(model: nn.Module, views: Sequence[View]) -> list[dict[str, Any]]:
    """Encode all views, with one forward pass per dropout probability, number of rows and kind of input.

    Views that have these in common share a forward pass, in which every row draws its own mask. Without
    dropout, views of the same texts are identical, so they are encoded once.
    """
    outputs: list[dict[str, Any]] = [{} for _ in views]
    kinds = [(view.dropout, _rows_of(view), frozenset(view.features)) for view in views]
    for kind in dict.fromkeys(kinds):
        places = [place for place, own in enumerate(kinds) if own == kind]
        probability = kind[0]
        columns = [views[place].features for place in places]
        if probability == 0:
            columns = list({id(column): column for column in columns}.values())
        with dropout_probability(model, probability):
            encoded = _encode(model, columns)
        for place, output in zip(places, cycle(encoded), strict=False):
            outputs[place] = output
    return outputs


def _rows_of(view: View) -> int:
    mask = view.features.get("attention_mask")
    return 0 if mask is None else len(mask)


def _encode(model: nn.Module, columns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    # Copies: the encoder writes its output into its input dict.
    copies = [dict(column) for column in columns]
    merged = merge_feature_batches(copies) if len(copies) > 1 else None
    if merged is None:  # a single column, or columns that cannot be joined, such as texts in one long row
        return [model(column) for column in copies]
    output = model(merged)
    rows = len(output["sentence_embedding"])
    size = rows // len(copies)
    return [
        {name: _rows(value, slice(start, start + size), rows) for name, value in output.items()}
        for start in range(0, rows, size)
    ]


def _rows(value: Any, part: slice, rows: int) -> Any:
    if isinstance(value, Tensor) and value.shape[:1] == (rows,):
        return value[part]
    return tuple(_rows(item, part, rows) for item in value) if isinstance(value, tuple) else value


class GatheredRows(NamedTuple):
    """Rows of all processes and the positions of the local rows."""

    rows: Tensor  # (n, ...), in the order of the processes
    anchors: slice  # the local rows
    weight: float  # factor for the mean over the local anchors, see `mean_weight`


def gather_rows(rows: Tensor, *, across_devices: bool) -> GatheredRows:
    """Concatenate the rows of all processes, with gradients to the process that each row came from.

    Processes may hold different numbers of rows: they are padded for the exchange.
    """
    count = len(rows)
    world = get_world_size()
    if world == 1 or not across_devices:
        return GatheredRows(rows, slice(0, count), mean_weight(rows))
    counts = counts_of(rows)
    longest = max(counts)
    padding = rows.new_zeros((longest - count, *rows.shape[1:]))
    gathered = all_gather_with_grad(torch.cat([rows, padding]))  # (world * longest, ...)
    blocks = [gathered[rank * longest : rank * longest + counts[rank]] for rank in range(world)]
    start = sum(counts[: get_rank()])
    return GatheredRows(torch.cat(blocks), slice(start, start + count), world * count / sum(counts))


def counts_of(rows: Tensor) -> list[int]:
    """Return the number of rows of each process."""
    world = get_world_size()
    if world == 1:
        return [len(rows)]
    own = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(own) for _ in range(world)]
    distributed.all_gather(counts, own)
    return [int(entry) for entry in counts]


def mean_weight(rows: Tensor) -> float:
    """Return the factor of the local mean with which the average over processes is the mean over all rows.

    It is 1 if all processes hold the same number of rows. Otherwise it is the local share of the rows times
    the number of processes.
    """
    counts = counts_of(rows)
    return len(counts) * len(rows) / sum(counts) if len(set(counts)) > 1 else 1.0


def draw_per_row(rows: Tensor, *, high: int) -> Tensor:
    """Draw an integer in 0 to `high` - 1 per row, `(b,)`, from torch's random numbers on the CPU.

    All processes have the same seed, so each draws for all of them and takes its own part. The draws are
    those of a single process with the whole batch, and restoring torch's generator restores them.
    """
    counts = counts_of(rows)
    drawn = torch.randint(high, (sum(counts),))  # (rows of all processes,)
    start = sum(counts[: get_rank()])
    return drawn[start : start + len(rows)]
