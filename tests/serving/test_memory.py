"""The memory of a server is bounded, regardless of the number of batch shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import processes

# Prints by how many MiB the process grew through 64 different products, and through 128 more.
GROWTH = """
import os
import torch
from sentemb._compat import pack_linear_weight, packed_linear, packed_linear_dtypes
from sentemb.serving.server import limit_memory

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

limit_memory()
torch.set_num_threads(1)
if torch.float32 in packed_linear_dtypes():
    weight = pack_linear_weight(torch.ones(256, 256))
    inputs = torch.ones(200, 256)
    seen = []
    with torch.inference_mode():
        for rows in range(8, 201):
            packed_linear(inputs[:rows], weight, None)
            if rows in (8, 72, 200):
                seen.append(held())
    print(seen[1] - seen[0], seen[2] - seen[1])
else:
    print("no packed products")
"""


def test_products_of_other_shapes_do_not_stay(tmp_path: Path) -> None:
    found = processes.output_of(GROWTH, log=tmp_path / "log").split()
    if found[:1] == ["no"]:
        pytest.skip("this processor computes no packed products")
    first, later = map(float, found)
    assert later < first, "twice as many shapes would take twice as much"
