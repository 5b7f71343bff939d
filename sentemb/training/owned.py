"""The weights that losses own, gathered from any nesting of losses.

`SentenceTransformerTrainer` optimizes them but neither saves, restores, averages nor clips them. A loss names
its weights through `sentemb.losses.LossParameters`; of any other loss (say, upstream's SoftmaxLoss) they are
the trainable parameters that are not the model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
import torch.distributed
from torch import Tensor, nn

from sentemb._compat import get_world_size
from sentemb.errors import InputError
from sentemb.losses import LossParameters


class OwnedByLoss:
    """A view of all weights that a loss, or a dict of losses, owns."""

    def __init__(self, loss: nn.Module | Mapping[str, nn.Module], model: nn.Module) -> None:
        losses = loss if isinstance(loss, Mapping) else {"": loss}
        of_model = {id(parameter) for parameter in model.parameters()}
        self._modules: dict[str, LossParameters] = {}
        self._others: dict[str, nn.Parameter] = {}
        seen: set[int] = set()
        for path, module in _named_modules(losses):
            if isinstance(module, LossParameters) and id(module) not in seen:
                seen.add(id(module))
                self._modules[path] = module
        named = {id(p) for module in self._modules.values() for p in module.owned_parameters()}
        for prefix, module in losses.items():
            for name, parameter in module.named_parameters():
                if parameter.requires_grad and id(parameter) not in of_model | named:
                    named.add(id(parameter))
                    self._others[f"{prefix}.{name}" if prefix else name] = parameter

    def parameters(self) -> list[nn.Parameter]:
        """Trainable weights, each once, in a fixed order."""
        owned = [p for module in self._modules.values() for p in module.owned_parameters() if p.requires_grad]
        return list({id(p): p for p in [*owned, *self._others.values()]}.values())

    def state(self) -> dict[str, Tensor]:
        """Copies of all owned weights and buffers by name."""
        tensors = {
            f"{path}.{name}" if path else name: tensor
            for path, module in self._modules.items()
            for name, tensor in module.head_state().items()
        }
        tensors.update(self._others)
        return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` took."""
        expected = self.state().keys()
        if set(state) != set(expected):
            odd = ", ".join(sorted(set(state) ^ set(expected)))
            raise InputError(
                f"the checkpoint was saved with another loss; these weights do not match: {odd}",
                "resume with the same loss and options",
            )
        for path, module in self._modules.items():
            prefix = f"{path}." if path else ""
            names = module.head_state().keys()
            module.load_head_state({name: state[prefix + name] for name in names})
        with torch.no_grad():
            for name, parameter in self._others.items():
                parameter.copy_(state[name])

    def broadcast(self) -> None:
        """Give every rank the weights of rank 0."""
        if get_world_size() > 1:
            for parameter in self.parameters():
                torch.distributed.broadcast(parameter.data, src=0)

    def average_gradients(self) -> None:
        """Average the gradients over the ranks, as DDP does for the model.

        A weight without a gradient on any rank stays without one, so that the optimizer passes it over; a
        weight with one on some ranks counts as zero on the others.
        """
        parameters = self.parameters()
        if get_world_size() == 1 or not parameters:
            return
        used = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
        torch.distributed.all_reduce(used)
        for parameter, ranks in zip(parameters, used.tolist(), strict=True):
            if ranks:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                average(parameter.grad)


def average(tensor: Tensor | None) -> None:
    """Put the average over the ranks in place of a tensor, which all ranks have or none has."""
    if tensor is not None and get_world_size() > 1:
        torch.distributed.all_reduce(tensor)
        tensor /= get_world_size()


def _named_modules(losses: Mapping[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    for prefix, loss in losses.items():
        for name, module in loss.named_modules():
            yield ".".join(part for part in (prefix, name) if part), module
