"""Networks in ONNX or OpenVINO format that replace a transformer's torch weights."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from sentemb._compat import networks_by
from sentemb.errors import InputError

EXPORTED = {"onnx": "onnx/model.onnx", "openvino": "openvino/openvino_model.xml"}
"""Where a network lies in its model's folder, by the backend of sentence-transformers that looks there."""

_INSTALL = "pip install 'sentemb[compress]'"
_Run = Callable[[Mapping[str, NDArray[np.int64]]], NDArray[np.float32]]


class ExportedNetwork(nn.Module):
    """A network run by an inference runtime: maps token ids to the token vectors of the last layer.

    It does not have trainable weights. Its checksum is part of the state, and so of a model's fingerprint.
    """

    checksum: Tensor

    def __init__(self, file: Path, config: Any) -> None:
        super().__init__()
        self.config, self.file = config, file
        openers = {".onnx": _open_onnx, ".xml": _open_openvino}
        try:
            self._inputs, self._run, self.runtime = openers[file.suffix](file)
        except ModuleNotFoundError as error:
            raise InputError(f"{file} needs {error.name}, which is not installed", _INSTALL) from error
        except Exception as error:  # each runtime has its own exceptions
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{file} cannot be read: {reason}", "write it again, or download it again"
            ) from error
        self.register_buffer("checksum", torch.frombuffer(bytearray(_checksum(file)), dtype=torch.uint8))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None, **_: Any
    ) -> BaseModelOutput:
        """Compute token vectors (batch, tokens, dimension) from token ids (batch, tokens)."""
        given = {"input_ids": input_ids, "attention_mask": attention_mask}
        if "token_type_ids" in self._inputs:
            given["token_type_ids"] = (
                torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
            )
        found = self._run({name: tensor.cpu().numpy() for name, tensor in given.items()})
        return BaseModelOutput(last_hidden_state=torch.from_numpy(found).to(input_ids.device))

    def train(self, mode: bool = True) -> ExportedNetwork:
        """Raise InputError in training mode: the network does not have weights to train."""
        if mode:
            raise InputError(
                f"{self.file} was converted for an inference runtime and cannot be trained",
                "train the model that it was converted from",
            )
        super().train(mode)
        return self

    def get_input_embeddings(self) -> None:
        """Return None: the embeddings are inside the exported network."""

    def save_pretrained(self, folder: str, **_: Any) -> None:
        """Copy the network to its place in a folder."""
        target = Path(folder, EXPORTED["onnx" if self.file.suffix == ".onnx" else "openvino"])
        target.parent.mkdir(parents=True, exist_ok=True)
        for source, name in zip(_files(self.file), _files(target), strict=True):
            shutil.copyfile(source, name)
        self.config.save_pretrained(folder)


def exported_file(folder: Path) -> Path | None:
    """Return the network of a folder without weights for torch; None if it has them."""
    if any(folder.glob("*.safetensors")):
        return None
    return next((folder / name for name in EXPORTED.values() if (folder / name).is_file()), None)


@contextmanager
def exported_networks(address: str) -> Iterator[None]:
    """Let a model folder without torch weights be loaded with the network that it has."""
    file = exported_file(Path(address))
    if file is None:
        yield
        return
    with networks_by(lambda config: ExportedNetwork(file, config)):
        yield


def _open_onnx(file: Path) -> tuple[set[str], _Run, str]:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    # Batches go side by side, one thread each: the same bits at any number of threads.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def run(given: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = session.run(None, dict(given))[0]
        return found

    names = {one.name for one in session.get_inputs()}
    return names, run, f"onnxruntime {runtime.__version__}"


def _open_openvino(file: Path) -> tuple[set[str], _Run, str]:
    runtime: Any = import_module("openvino")
    threads = torch.get_num_threads()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": threads,  # one thread each
        # Left to itself, it computes in bfloat16 where the processor can.
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = runtime.Core().compile_model(str(file), "CPU", settings)
    own = threading.local()

    def run(given: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        # A copy, since the next batch overwrites it.
        return np.array(own.request.infer(dict(given))[0], dtype=np.float32)

    names = {one.get_any_name() for one in compiled.inputs}
    return names, run, f"openvino {runtime.__version__}"


def _files(network: Path) -> list[Path]:
    """Return the files of a network: OpenVINO keeps the weights next to the graph."""
    return [network, network.with_suffix(".bin")] if network.suffix == ".xml" else [network]


def _checksum(network: Path) -> bytes:
    digest = hashlib.sha256()
    for file in _files(network):
        digest.update(file.read_bytes())
    return digest.digest()
