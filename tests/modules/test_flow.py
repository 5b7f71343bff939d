"""The log-determinant and output of the flow match the formulas for every option."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

import sentemb
from sentemb.encoding.sentence import SentenceEncoder, is_plain_text_model
from sentemb.errors import InputError
from sentemb.modules import FlowModule, load
from sentemb.modules.flow import ActNorm
from tests.modules.flow_loops import bits, flow_step

KINDS = list(itertools.product(("additive", "affine"), ("reverse", "learned")))
every_kind = pytest.mark.parametrize(("coupling", "permutation"), KINDS)
TEXTS = ["a cat sat on the mat", "birds", "two dogs ran in the park", ""]


def random_flow(dimension: int, **options: Any) -> FlowModule:
    """Return a flow in float64 whose weights all differ from their initial values."""
    torch.manual_seed(0)
    flow = FlowModule(dimension, width=5, **options).double()
    flow.initialise(torch.randn(64, dimension, dtype=torch.float64) * 3 + 1)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return flow


def jacobian_log_dets(flow: FlowModule, vectors: Tensor) -> Tensor:
    jacobians = [
        torch.autograd.functional.jacobian(lambda row: flow.transform(row[None])[0][0], row)
        for row in vectors
    ]
    return torch.stack([torch.linalg.slogdet(jacobian)[1] for jacobian in jacobians])


@every_kind
@pytest.mark.parametrize(("dimension", "levels"), [(8, 3), (7, 3), (5, 3), (2, 1), (9, 2)])
def test_the_log_det(dimension: int, levels: int, coupling: Any, permutation: Any) -> None:
    flow = random_flow(dimension, levels=levels, coupling=coupling, permutation=permutation)
    vectors = torch.randn(4, dimension, dtype=torch.float64)
    latent, log_det = flow.transform(vectors)
    assert latent.shape == vectors.shape
    torch.testing.assert_close(log_det, jacobian_log_dets(flow, vectors), atol=1e-9, rtol=0)


@every_kind
def test_a_step_and_the_objective_are_the_loops(coupling: Any, permutation: Any) -> None:
    flow = random_flow(7, coupling=coupling, permutation=permutation)
    vectors = torch.randn(3, 7, dtype=torch.float64)
    step = flow.stages[0][0]
    with torch.no_grad():
        outputs, log_det = step(vectors)
    for row, output, change in zip(vectors, outputs, log_det.expand(3), strict=True):
        expected, expected_change = flow_step(step, row.tolist())
        assert output.tolist() == pytest.approx(expected, abs=1e-10)
        assert float(change) == pytest.approx(expected_change, abs=1e-10)
    stages = [list(stage) for stage in flow.stages]
    for row, output, own in zip(vectors, flow.transform(vectors)[0], flow.bits(vectors), strict=True):
        latent, expected_bits = bits(stages, row.tolist())
        assert output.tolist() == pytest.approx(latent, abs=1e-10)
        assert float(own.detach()) == pytest.approx(expected_bits, abs=1e-10)


@every_kind
def test_gradients_of_every_weight(coupling: Any, permutation: Any) -> None:
    flow = random_flow(4, levels=2, steps=1, coupling=coupling, permutation=permutation)
    vectors = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    names, weights = zip(*flow.named_parameters(), strict=True)

    def objective(inputs: Tensor, *values: Tensor) -> Tensor:
        given = {f"flow.{name}": value for name, value in zip(names, values, strict=True)}
        return torch.func.functional_call(_MeanBits(flow), given, (inputs,))

    assert torch.autograd.gradcheck(objective, (vectors, *weights), fast_mode=True)


class _MeanBits(torch.nn.Module):
    def __init__(self, flow: FlowModule) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, vectors: Tensor) -> Tensor:
        return self.flow.bits(vectors).mean()


def actnorm_passes(flow: FlowModule, vectors: Tensor) -> list[tuple[Tensor, Tensor]]:
    passes: list[tuple[Tensor, Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: passes.append((inputs[0], output)))
        for module in flow.modules()
        if isinstance(module, ActNorm)
    ]
    flow.transform(vectors)
    for hook in hooks:
        hook.remove()
    return passes


@every_kind
def test_initialisation_gives_every_actnorm_mean_zero_and_variance_one(
    coupling: Any, permutation: Any
) -> None:
    torch.manual_seed(0)
    flow = FlowModule(12, coupling=coupling, permutation=permutation).double()
    vectors = 4 * torch.randn(200, 12, dtype=torch.float64) - 7
    flow.initialise(vectors)
    passes = actnorm_passes(flow, vectors)
    assert len(passes) == 9 * 3  # each step has one, and its coupling two
    for given, output in passes:
        # The 1e-6 that the released code adds to the deviation is visible where the deviation is small.
        deviation = given.std(dim=0, correction=0)
        torch.testing.assert_close(output.mean(dim=0), torch.zeros_like(deviation), atol=1e-4, rtol=0)
        torch.testing.assert_close(
            output.std(dim=0, correction=0), deviation / (deviation + 1e-6), atol=1e-4, rtol=0
        )


def test_initialisation_happens_once_also_after_loading(tmp_path: Path) -> None:
    flow = FlowModule(8)
    with pytest.raises(InputError, match="the variance of 1 vector"):
        flow.initialise(torch.randn(1, 8))
    assert not flow.initialised
    flow.initialise(torch.randn(32, 8))
    before = {name: tensor.clone() for name, tensor in flow.state_dict().items()}
    flow.save(str(tmp_path))
    loaded = FlowModule.load(str(tmp_path))
    for again in (flow, loaded):
        with pytest.raises(InputError, match="already initialized"):
            again.initialise(torch.randn(32, 8) + 5)
        again.train()(dict(sentence_embedding=torch.randn(4, 8) * 9))
        for name, tensor in again.state_dict().items():
            torch.testing.assert_close(tensor, before[name], atol=0, rtol=0)


def test_a_flow_that_was_never_fitted_says_so() -> None:
    with pytest.raises(InputError, match=r"not been fitted.*fit_flow"):
        FlowModule(8)({"sentence_embedding": torch.randn(2, 8)})


def test_constant_channels_and_float32_stay_finite() -> None:
    torch.manual_seed(0)
    vectors = 5 * torch.randn(64, 96) + 20
    vectors[:, 10] = 3.0
    vectors[:, 11] *= 1e-4
    flow = FlowModule(96, coupling="affine", permutation="learned")
    flow.initialise(vectors[:32])
    flow.bits(vectors).mean().backward()
    assert torch.isfinite(flow.bits(vectors)).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in flow.parameters())
    others = torch.randn(16, 96) + 20
    latent = flow.transform(others)[0]
    assert torch.isfinite(latent).all()


@every_kind
def test_float32_inverts_and_agrees_with_float64(coupling: Any, permutation: Any) -> None:
    torch.manual_seed(0)
    vectors = 0.3 * torch.randn(100, 384) + 0.1
    flow = FlowModule(384, coupling=coupling, permutation=permutation)
    flow.initialise(vectors)
    expected = flow.double().bits(vectors.double())
    torch.testing.assert_close(flow.float().bits(vectors).double(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("dimension", "options", "message"),
    [
        (4, {}, "4 dimensions cannot be halved for 3 levels"),
        (1, {"levels": 1}, "1 dimensions"),
        (8, {"steps": 0}, "steps of a flow is 0"),
        (8, {"width": 2.5}, "width of a flow is 2.5"),
        (8, {"coupling": "linear"}, "unknown coupling.*additive or affine"),
        (8, {"permutation": "random"}, "unknown permutation.*reverse or learned"),
    ],
)
def test_what_no_flow_can_be_made_of(dimension: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FlowModule(dimension, **options)


@pytest.fixture(scope="module")
def flow_folder(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flow") / "model"
    model = load(tiny_bert, pooling="last-2", device="cpu")
    torch.manual_seed(0)
    flow = FlowModule(16, permutation="learned")
    flow.initialise(torch.tensor(model.encode([*TEXTS, "the cat", "a dog not on a mat"])))
    model.append(flow)
    model.save(str(folder))
    return folder


def test_a_saved_model_is_read_by_load_and_refused_by_upstream(flow_folder: Path) -> None:
    model = sentemb.load(flow_folder, device="cpu")
    assert isinstance(model[-1], FlowModule)
    plain = load(flow_folder, pooling="last-2", device="cpu")  # a pooling replaces what followed
    vectors = torch.tensor(plain.encode(TEXTS))
    np.testing.assert_allclose(model.encode(TEXTS), model[-1].transform(vectors)[0].detach(), atol=1e-4)
    trusted = SentenceTransformer(str(flow_folder), trust_remote_code=True, device="cpu")
    np.testing.assert_array_equal(trusted.encode(TEXTS), model.encode(TEXTS))
    with pytest.raises(ValueError, match="not part of Sentence Transformers"):
        SentenceTransformer(str(flow_folder), device="cpu")
    assert not list(flow_folder.rglob("*.bin"))
    config = json.loads((flow_folder / "3_FlowModule" / "config.json").read_text())
    assert (config["loaded_by"], config["permutation"]) == ("sentemb.load", "learned")


def test_the_fast_path_encodes_a_model_with_a_flow(flow_folder: Path) -> None:
    model = sentemb.load(flow_folder, device="cpu")
    assert is_plain_text_model(model)
    encoder = SentenceEncoder(model, name="flow")
    np.testing.assert_allclose(encoder.encode(TEXTS), model.encode(TEXTS), atol=1e-4)
    before = encoder.fingerprint
    with torch.no_grad():
        next(model[-1].parameters()).add_(1)
    assert encoder.fingerprint != before


@pytest.mark.parametrize("damage", ["weights", "shape", "key", "version", "absent"])
def test_a_damaged_folder_is_one_line(flow_folder: Path, tmp_path: Path, damage: str) -> None:
    model = shutil.copytree(flow_folder, tmp_path / "model")
    folder = model / "3_FlowModule"
    weights, config = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    if damage == "weights":
        weights.write_bytes(weights.read_bytes()[:100])
    elif damage == "shape":
        save_file(load_file(weights) | {"initialised": torch.tensor([True])}, weights)
    elif damage == "absent":
        weights.unlink()
    else:
        config = config | {"version": 2} if damage == "version" else {"version": 1}
        (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError):
        sentemb.load(model, device="cpu")
