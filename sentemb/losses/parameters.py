"""Interface between a trainer and a loss with its own weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from sentemb.errors import InputError


class LossParameters(nn.Module):
    """Base class of losses with weights: a projection head, a classifier, label vectors.

    sentence-transformers saves, restores, clips and averages over ranks only the weights under `loss.model`.
    A trainer of sentemb does the same for the weights that this class yields. A subclass lists the child
    modules that hold them in `owned_modules`, without the encoder and frozen reference encoders. If a resumed
    run needs further state, the subclass adds it in `head_state` and restores it in `load_head_state`.

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
        """Restore what `head_state` returned; nothing changes unless all names and shapes match.

        Args:
            state: Tensors by name.

        Raises:
            InputError: A name is missing or unknown, or a shape differs.
        """
        own = dict(self._named_owned())
        missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or unknown:
            raise InputError(
                f"the saved weights do not fit this {type(self).__name__}: "
                f"missing {missing or 'none'}, unknown {unknown or 'none'}",
                "build the loss with the options of the run that saved the weights",
            )
        for name, tensor in own.items():
            if state[name].shape != tensor.shape:
                raise InputError(
                    f"the saved weight {name} has the shape {tuple(state[name].shape)}, but this "
                    f"{type(self).__name__} expects {tuple(tensor.shape)}",
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
