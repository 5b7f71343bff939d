from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from sentemb.errors import InputError
from sentemb.pretraining.muon import MuonAdamW, layer_matrices, orthogonalised


def _gradients(parameters: list[nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def _parameters(*shapes: tuple[int, ...]) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def test_orthogonalised_matrices_keep_their_directions_and_lose_their_scales() -> None:
    matrices = torch.randn(3, 8, 20, generator=torch.Generator().manual_seed(1)).double()
    result = orthogonalised(matrices)
    for matrix, found in zip(matrices, result, strict=True):
        left, _, right = torch.linalg.svd(matrix, full_matrices=False)
        inside = left.mT @ found @ right.mT  # (8, 8): diagonal, for the singular vectors are unchanged
        assert torch.allclose(inside, torch.diag(inside.diagonal()), atol=1e-9)
        assert inside.diagonal().min() > 0.6
        assert inside.diagonal().max() < 1.3


def test_a_zero_matrix_stays_zero() -> None:
    assert torch.equal(orthogonalised(torch.zeros(1, 4, 4)), torch.zeros(1, 4, 4))


def test_the_update_is_that_of_torchs_muon_up_to_its_half_precision() -> None:
    ours, theirs = _parameters((8, 20), (20, 8), (8, 8)), _parameters((8, 20), (20, 8), (8, 8))
    optimizer = MuonAdamW([{"params": ours, "lr": 0.1, "weight_decay": 0.01, "orthogonal": True}])
    peer = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    for step in range(3):
        _gradients(ours, step)
        _gradients(theirs, step)
        optimizer.step()
        peer.step()
    for mine, other, before in zip(ours, theirs, _parameters((8, 20), (20, 8), (8, 8)), strict=True):
        moved = (other - before).norm()
        assert (mine - other).norm() < 0.05 * moved


def test_other_groups_are_updated_by_adamw() -> None:
    ours, theirs, matrix = _parameters((5,), (4, 3)), _parameters((5,), (4, 3)), _parameters((4, 4))
    optimizer = MuonAdamW(
        [{"params": ours, "lr": 0.1}, {"params": matrix, "lr": 0.1, "orthogonal": True}], betas=(0.9, 0.98)
    )
    peer = torch.optim.AdamW(theirs, lr=0.1, betas=(0.9, 0.98))
    for step in range(3):
        _gradients(ours, step)
        _gradients(theirs, step)
        _gradients(matrix, step)
        optimizer.step()
        peer.step()
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))


def test_a_restored_state_goes_on_as_if_nothing_had_happened() -> None:
    def make() -> tuple[list[nn.Parameter], MuonAdamW]:
        parameters = _parameters((6, 4), (4,))
        groups = [
            {"params": parameters[1:], "lr": 0.1},
            {"params": parameters[:1], "lr": 0.1, "orthogonal": True},
        ]
        return parameters, MuonAdamW(groups, fused=True)

    straight, optimizer = make()
    resumed, second = make()
    for step in range(2):
        _gradients(straight, step)
        optimizer.step()
    with torch.no_grad():
        for target, source in zip(resumed, straight, strict=True):
            target.copy_(source)
    second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for parameters, used in ((straight, optimizer), (resumed, second)):
        _gradients(parameters, 7)
        used.step()
    assert all(torch.equal(one, other) for one, other in zip(straight, resumed, strict=True))


def test_the_matrices_of_a_bert_are_those_of_its_layers() -> None:
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=30,
            hidden_size=8,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=12,
        )
    )
    inside = layer_matrices(model)
    names = {name for name, parameter in model.named_parameters() if parameter in inside}
    assert len(names) == 2 * 6
    assert all(name.startswith("bert.encoder.layer.") and name.endswith(".weight") for name in names)


def test_a_model_with_layers_elsewhere_is_refused() -> None:
    class Odd(nn.Module):
        @property
        def base_model(self) -> nn.Module:
            return nn.Linear(2, 2)

    with pytest.raises(InputError, match="--optimizer adamw"):
        layer_matrices(Odd())  # type: ignore[arg-type]
