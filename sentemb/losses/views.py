"""Views that are encoded in a step: text columns with a dropout probability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any, NamedTuple

from torch import Tensor, nn

from sentemb._compat import merge_feature_batches
from sentemb.errors import InputError
from sentemb.losses.encoder import unwrap


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
