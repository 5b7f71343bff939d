"""Several tasks on three gloo processes against one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from sentemb.multitask import fit_multitask
from sentemb.multitask.tasks import uses_nli
from tests import processes
from tests.conftest import build_tiny_bert
from tests.multitask.toy import NLI, toy_config, toy_sets
from tests.training.test_ddp import on_ranks

KINDS: dict[str, dict[str, Any]] = {
    "table1-fusion": {},
    "table5-given-nli": {},
    "table6-epoch-round-robin": {"preset": "released"},
    "table7-gradient-surgery": {},
}


def train_each(base: Path, output: Path) -> None:
    for row, options in KINDS.items():
        # A large epsilon: Adam would make a step of what rounding leaves of a gradient of zero.
        options = {"max_steps": 4, "batch_size": 5, "epsilon": 1e-2, "head_dropout": 0.0, **options}
        config = toy_config(row, base, output / row, **options)
        nli = NLI if uses_nli(config) else ()
        fit_multitask(config, toy_sets(17), toy_sets(12, seed=1, split="dev"), nli=nli)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    return {f"{path.name} {name}": one for path in files for name, one in load_file(path).items()}


def test_three_processes_train_what_one_does(tmp_path: Path) -> None:
    log, base = tmp_path / "log.txt", build_tiny_bert(tmp_path / "bert", layers=1, dropout=0.0)
    alone = processes.start(train_each, base, tmp_path / "alone", log=log)
    alone.join()
    assert alone.exitcode == 0, log.read_text()
    on_ranks(3, train_each, base, tmp_path / "several", log=log)
    for row in KINDS:
        expected, found = (weights_of(tmp_path / name / row) for name in ("alone", "several"))
        assert expected.keys() == found.keys() and len(expected) > 20
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5, msg=f"{row} {name}")
