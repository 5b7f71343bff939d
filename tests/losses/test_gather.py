from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sentemb.losses.self_guided import sample_layer
from sentemb.losses.views import gather_rows
from tests.losses import ddp


@pytest.fixture(scope="module")
def several_processes(
    tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, dict[str, torch.Tensor]]:
    """Return losses and gradients of every case on two and on three gloo processes."""
    found = {}
    # Imported once: that takes longer than the losses.
    multiprocessing.set_forkserver_preload([ddp.__name__])
    for world in (2, 3):
        output = tmp_path_factory.mktemp("ddp")
        torch.multiprocessing.start_processes(
            ddp.run, args=(world, tiny_bert, output), nprocs=world, start_method="forkserver"
        )
        found[world] = load_file(output / "results.safetensors")
    return found


@pytest.mark.parametrize("split", sorted(ddp.SPLITS))
@pytest.mark.parametrize("case", ddp.CASES)
def test_processes_give_the_loss_and_gradient_of_one(several_processes, tiny_bert, case, split) -> None:
    loss = ddp.make_loss(case, tiny_bert)
    every = slice(None)
    expected = ddp.gradients(loss, loss.model, ddp.columns(case, every), ddp.labels(case, every))
    prefix = f"{case}/{split}/"
    results = several_processes[len(ddp.SPLITS[split])]
    found = {name.removeprefix(prefix): t for name, t in results.items() if name.startswith(prefix)}
    # Under find_unused_parameters DDP gives zeros to what has no part in the loss.
    assert all(found[name].eq(0).all() for name in found.keys() - expected.keys())
    assert len(expected) > 30
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-9, rtol=1e-9, msg=name)


def test_processes_draw_different_layers_that_together_are_those_of_one(several_processes) -> None:
    drawn = several_processes[2]["drawn"]
    first, second = drawn.chunk(2)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(drawn, sample_layer(torch.cat([ddp.VIEWS, ddp.VIEWS])))


@pytest.mark.parametrize("across_devices", [True, False])
def test_one_process_keeps_its_rows(across_devices: bool) -> None:
    rows = torch.randn(3, 2)
    gathered = gather_rows(rows, across_devices=across_devices)
    assert gathered.rows is rows
    assert gathered.anchors == slice(0, 3)
    assert gathered.weight == 1
