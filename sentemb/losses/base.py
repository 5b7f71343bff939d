"""Base class of all losses: encodes views, checks options, gathers rows across processes, cites papers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterable
from functools import cache
from importlib.resources import files
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.gather import GatheredRows, gather_rows
from sentemb.losses.parameters import LossParameters
from sentemb.losses.views import View, encode_views

Choice = TypeVar("Choice")
Number = TypeVar("Number")


class EncoderLoss(LossParameters):
    """Base class of the losses of one encoder: encode the views of a batch and compare the outputs.

    A subclass implements the comparison in `compute_loss_from_embeddings`. If it does not compare the
    sentence vectors of all text columns, it also overrides `views_of`, which selects what is encoded, and
    `embeddings_of`, which selects the compared part of the output. Encoding and comparing are separate, so
    `GradientCache` can wrap any subclass. Options are stored under the names of the constructor's arguments.

    Args:
        model: The encoder to train.

    Example:
        >>> issubclass(SimCSELoss, EncoderLoss)
        True
    """

    references: ClassVar[tuple[str, ...]] = ()
    """Keys in `references.bib` of the papers to cite."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @property
    def scale(self) -> float:
        """Factor of the cosine, `1 / temperature`."""
        temperature: float = self.temperature  # type: ignore[assignment]
        return 1 / temperature

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts per column.
            labels: The labels that the class describes under Inputs, or None.

        Returns:
            A scalar, or the weighted components by name.

        Raises:
            InputError: The loss does not take these text columns or labels.
        """
        outputs = encode_views(self.model, self.views_of(sentence_features))
        embeddings = [
            part for view, output in enumerate(outputs) for part in self.embeddings_of(output, view)
        ]
        return self.compute_loss_from_embeddings(embeddings, labels)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """Return the views of a batch to encode: by default every column. Called once per step."""
        return [View(column) for column in sentence_features]

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """Return the parts of an encoded view that are compared.

        Args:
            output: The encoder's output for the view.
            view: Index of the view in `views_of`.

        Returns:
            The tensors that the view adds to the input of `compute_loss_from_embeddings`, each `(b, ...)`.
        """
        return [output["sentence_embedding"]]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of the tensors that `embeddings_of` returned for all views.

        Args:
            embeddings: Tensors of `(b, ...)`.
            labels: The labels that the class describes under Inputs, or None.

        Returns:
            A scalar, or the weighted components by name.
        """
        raise NotImplementedError

    def why_not_cached(self) -> str | None:
        """Return the reason why `GradientCache` cannot wrap this loss, for messages; None if it can."""
        return None

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options for the model card: the constructor's keyword-only arguments."""
        options = inspect.signature(type(self)).parameters.values()
        return {one.name: getattr(self, one.name) for one in options if one.kind is one.KEYWORD_ONLY}

    @property
    def citation(self) -> str:
        """BibTeX entries of the papers."""
        return "\n".join(bibtex(key) for key in self.references)

    def gather(self, rows: Tensor) -> GatheredRows:
        """Gather the rows of all processes, if the loss compares across them."""
        return gather_rows(rows, across_devices=bool(self.gather_across_devices))

    def check_choice(self, option: str, value: Choice, choices: Collection[object]) -> Choice:
        """Return the value; raise InputError if it is not one of the choices."""
        if value not in choices:
            allowed = ", ".join(repr(choice) for choice in choices)
            raise InputError(f"{option} of {type(self).__name__} is {value!r}", f"choose one of {allowed}")
        return value

    def check_number(
        self, option: str, value: Number, *, low: float, inclusive: bool = False, whole: bool = False
    ) -> Number:
        """Return the value; raise InputError if it is not a finite number within its lower bound."""
        check_number(type(self).__name__, option, value, low=low, inclusive=inclusive, whole=whole)
        return value

    def one_column(self, sentence_features: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Return the only text column of a batch; raise InputError if there are several."""
        columns = list(sentence_features)
        if len(columns) != 1:
            raise InputError(
                f"{type(self).__name__} needs single texts, but this batch has {len(columns)} text columns",
                "select one column, or join the two texts of a pair in one column",
            )
        return columns[0]

    def row_labels(self, labels: Tensor | None, *, rows: int) -> Tensor:
        """Return one label per row of the batch; raise InputError if the labels do not match."""
        name = type(self).__name__
        if labels is None:
            raise InputError(f"{name} needs labels", "add a column called label to the data")
        if labels.numel() != rows:
            raise InputError(
                f"{name} needs one label per row, but got labels of shape {tuple(labels.shape)} for "
                f"{rows} rows"
            )
        return labels.view(rows)


def check_number(
    loss: str, option: str, value: Any, *, low: float, inclusive: bool = False, whole: bool = False
) -> None:
    """Raise InputError if the value is not a finite number within its lower bound."""
    number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not (number and _is_finite(value) and (value >= low if inclusive else value > low)):
        bound = f"at least {low:g}" if inclusive else f"above {low:g}"
        noun = "an integer" if whole else "a finite number"
        raise InputError(f"{option} of {loss} is {value!r}", f"use {noun} {bound}")


def _is_finite(value: Any) -> bool:
    """Return whether a number is finite as a float; an integer of hundreds of digits is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def bibtex(key: str) -> str:
    """Return the BibTeX entry of a paper."""
    return _bibliography()[key]


@cache
def _bibliography() -> dict[str, str]:
    text = files("sentemb.losses").joinpath("references.bib").read_text(encoding="utf-8")
    entries = text.strip().split("\n\n")
    return {entry.split("{", 1)[1].split(",", 1)[0]: f"{entry}\n" for entry in entries}
