"""What every loss shares: the views that it encodes, checks of its options, its gathering, its citation."""

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
    """Base of the losses of one encoder: encode the views of a batch, compare what came out.

    A subclass says what it compares, in `compute_loss_from_embeddings`, and where that is not the sentence
    vector of every text column, what it encodes (`views_of`) and what of it is compared (`embeddings_of`).
    Because encoding and comparing are apart, `GradientCache` can wrap any of them. Options are stored under
    the names that the constructor gives them.

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
        """Loss of a batch.

        Args:
            sentence_features: One dict of tokenized texts per column.
            labels: What the class describes under Inputs, or None.

        Returns:
            A scalar, or the weighted components by name.

        Raises:
            InputError: The text columns or the labels are not those that the loss takes.
        """
        outputs = encode_views(self.model, self.views_of(sentence_features))
        embeddings = [
            part for view, output in enumerate(outputs) for part in self.embeddings_of(output, view)
        ]
        return self.compute_loss_from_embeddings(embeddings, labels)

    def views_of(self, sentence_features: Iterable[dict[str, Any]]) -> list[View]:
        """What of a batch is encoded, asked once in a step: every column, under its own dropout."""
        return [View(column) for column in sentence_features]

    def embeddings_of(self, output: dict[str, Any], view: int) -> list[Tensor]:
        """What of an encoded view is compared.

        Args:
            output: What the encoder returned for it.
            view: Its place in `views_of`.

        Returns:
            Its part of the arguments of `compute_loss_from_embeddings`, each `(b, ...)`.
        """
        return [output["sentence_embedding"]]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Loss of what `embeddings_of` gives for all views.

        Args:
            embeddings: Tensors of `(b, ...)`.
            labels: What the class describes under Inputs, or None.

        Returns:
            A scalar, or the weighted components by name.
        """
        raise NotImplementedError

    def why_not_cached(self) -> str | None:
        """What keeps `GradientCache` from wrapping this loss, for the user, or None."""
        return None

    def get_config_dict(self) -> dict[str, Any]:
        """Options for the model card: the constructor's keyword-only ones with their values."""
        options = inspect.signature(type(self)).parameters.values()
        return {one.name: getattr(self, one.name) for one in options if one.kind is one.KEYWORD_ONLY}

    @property
    def citation(self) -> str:
        """BibTeX of the papers."""
        return "\n".join(bibtex(key) for key in self.references)

    def gather(self, rows: Tensor) -> GatheredRows:
        """Rows of all processes, if the loss compares across them."""
        return gather_rows(rows, across_devices=bool(self.gather_across_devices))

    def check_choice(self, option: str, value: Choice, choices: Collection[object]) -> Choice:
        """Refuse a value that is none of the choices; give it back otherwise."""
        if value not in choices:
            allowed = ", ".join(repr(choice) for choice in choices)
            raise InputError(f"{option} of {type(self).__name__} is {value!r}", f"choose one of {allowed}")
        return value

    def check_number(
        self, option: str, value: Number, *, low: float, inclusive: bool = False, whole: bool = False
    ) -> Number:
        """Refuse what is no number, or one that is not finite or not above its lower bound."""
        check_number(type(self).__name__, option, value, low=low, inclusive=inclusive, whole=whole)
        return value

    def one_column(self, sentence_features: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """The only text column of a batch."""
        columns = list(sentence_features)
        if len(columns) != 1:
            raise InputError(
                f"{type(self).__name__} needs single texts, but this batch has {len(columns)} text columns",
                "select one column, or join the two texts of a pair in one column",
            )
        return columns[0]

    def row_labels(self, labels: Tensor | None, *, rows: int) -> Tensor:
        """One label per row of the batch."""
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
    """Refuse what is no number, or one that is not finite or not above its lower bound."""
    number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not (number and _is_finite(value) and (value >= low if inclusive else value > low)):
        bound = f"at least {low:g}" if inclusive else f"above {low:g}"
        noun = "an integer" if whole else "a finite number"
        raise InputError(f"{option} of {loss} is {value!r}", f"use {noun} {bound}")


def _is_finite(value: Any) -> bool:
    """Whether a number is finite as a float, which whole numbers of hundreds of digits are not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def bibtex(key: str) -> str:
    """The entry of a paper."""
    return _bibliography()[key]


@cache
def _bibliography() -> dict[str, str]:
    text = files("sentemb.losses").joinpath("references.bib").read_text(encoding="utf-8")
    entries = text.strip().split("\n\n")
    return {entry.split("{", 1)[1].split(",", 1)[0]: f"{entry}\n" for entry in entries}
