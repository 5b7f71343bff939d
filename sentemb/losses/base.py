"""Base classes of the losses: their own weights, views, gathering, citations; and checks of options."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from sentemb.errors import InputError
from sentemb.losses.views import GatheredRows, View, encode_views, gather_rows

Choice = TypeVar("Choice")
Number = TypeVar("Number")


class LossParameters(nn.Module):
    """Base class of losses with weights: a projection head, a classifier, label vectors.

    sentence-transformers saves, restores, clips and averages over ranks only the weights under `loss.model`.
    A trainer of sentemb does the same for the weights that this class yields. A subclass lists the child
    modules that hold them in `owned_modules`, without the encoder and frozen reference encoders.

    Example:
        >>> issubclass(SelfGuidedLoss, LossParameters)
        True
    """

    owned_modules: ClassVar[tuple[str, ...]] = ()
    """Names of the child modules whose weights the loss owns; modules that are None are skipped."""

    def owned_parameters(self) -> Iterator[nn.Parameter]:
        """Iterate over the trainable weights that the loss owns, each once, in a fixed order.

        Weights that an owned module shares with the encoder (a tied decoder) belong to the encoder.
        """
        for _, parameter in self._named_owned():
            if parameter.requires_grad:
                yield parameter

    def head_state(self) -> dict[str, Tensor]:
        """Return copies of the owned weights by name (`head.0.weight`), on the CPU, ready for safetensors."""
        return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in self._named_owned()}

    def load_head_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `head_state` returned; raise InputError before any change if it does not fit."""
        own = dict(self._named_owned())
        expected, saved = ({name: (*t.shape,) for name, t in some.items()} for some in (own, state))
        for name in sorted(expected.keys() | saved.keys()):
            if expected.get(name) != saved.get(name):
                raise InputError(
                    f"the saved weights do not fit this {type(self).__name__}: the shape of {name} is "
                    f"{saved.get(name, 'missing')}, and should be {expected.get(name, 'missing')}",
                    "build the loss with the options of the run that saved the weights",
                )
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])

    def _named_owned(self) -> Iterator[tuple[str, nn.Parameter]]:
        model = getattr(self, "model", None)
        seen = set() if model is None else {id(parameter) for parameter in model.parameters()}
        for child in self.owned_modules:
            module = getattr(self, child)
            if module is None:
                continue
            for name, parameter in module.named_parameters(prefix=child):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield name, parameter


class EncoderLoss(LossParameters):
    """Base class of the losses of one encoder: encode the views of a batch and compare the outputs.

    A subclass implements the comparison in `compute_loss_from_embeddings`. If it does not compare the
    sentence vectors of all text columns, it also overrides `views_of`, which selects what is encoded, and
    `embeddings_of`, which selects the compared part of the output. Encoding and comparing are separate, so
    `GradientCache` can wrap any subclass. Options are stored under the names of the constructor's arguments.

    Example:
        >>> issubclass(SimCSELoss, EncoderLoss)
        True
    """

    references: ClassVar[tuple[str, ...]] = ()
    """Keys in `references.bib` of the papers to cite."""

    learns_from_teachers: ClassVar[bool] = False
    """True if the labels are the vectors of teachers."""

    why_not_cached: ClassVar[str | None] = None
    """Reason why `GradientCache` cannot wrap this loss, for messages; None if it can."""

    _has_trained = False

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

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
        """Return the parts of the encoder's output for a view that are compared, each `(b, ...)`.

        `view` is its index in `views_of`. The parts are the input of `compute_loss_from_embeddings`.
        """
        return [output["sentence_embedding"]]

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of the tensors that `embeddings_of` returned for all views; see `forward`."""
        raise NotImplementedError

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

    def is_first_step(self, computed: Tensor) -> bool:
        """Return True once, for the first tensor with a graph: checks of the data run in one step only."""
        is_first = computed.requires_grad and not self._has_trained
        self._has_trained = self._has_trained or is_first
        return is_first

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


def check_choice(loss: nn.Module, option: str, value: Choice, choices: Collection[object]) -> Choice:
    """Return the value; raise InputError if it is not one of the choices."""
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{option} of {type(loss).__name__} is {value!r}", f"choose one of {allowed}")
    return value


def check_number(
    loss: nn.Module, option: str, value: Number, *, low: float, inclusive: bool = False, whole: bool = False
) -> Number:
    """Return the value; raise InputError if it is not a finite number within its lower bound."""
    number: Any = value
    try:
        right = isinstance(number, Integral if whole else Real) and not isinstance(number, bool)
        right = right and math.isfinite(number) and (number >= low if inclusive else number > low)
    except OverflowError:  # an integer of hundreds of digits
        right = False
    if not right:
        bound = f"at least {low:g}" if inclusive else f"above {low:g}"
        noun = "an integer" if whole else "a finite number"
        raise InputError(f"{option} of {type(loss).__name__} is {value!r}", f"use {noun} {bound}")
    return value


def bibtex(key: str) -> str:
    """Return the BibTeX entry of a paper."""
    return _bibliography()[key]


@cache
def _bibliography() -> dict[str, str]:
    text = files("sentemb.losses").joinpath("references.bib").read_text(encoding="utf-8")
    entries = text.strip().split("\n\n")
    return {entry.split("{", 1)[1].split(",", 1)[0]: f"{entry}\n" for entry in entries}
