"""In-batch negatives from every process.

The convention is that of sentence-transformers: each process compares its local anchors with the candidates
of all processes. Its loss is a mean, weighted so that the average over processes, which DDP takes of the
gradients, equals the loss of a single process with the whole batch. A factor of the world size is not needed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, distributed

from sentemb._compat import all_gather_with_grad, get_rank, get_world_size


class GatheredRows(NamedTuple):
    """Rows of all processes and the positions of the local rows."""

    rows: Tensor  # (n, ...), in the order of the processes
    anchors: slice  # the local rows
    weight: float  # factor for the mean over the local anchors, see `mean_weight`


def gather_rows(rows: Tensor, *, across_devices: bool) -> GatheredRows:
    """Concatenate the rows of all processes, with gradients to the process that each row came from.

    Processes may hold different numbers of rows: they are padded for the exchange.
    """
    count = len(rows)
    world = get_world_size()
    if world == 1 or not across_devices:
        return GatheredRows(rows, slice(0, count), mean_weight(rows))
    counts = counts_of(rows)
    longest = max(counts)
    padding = rows.new_zeros((longest - count, *rows.shape[1:]))
    gathered = all_gather_with_grad(torch.cat([rows, padding]))  # (world * longest, ...)
    blocks = [gathered[rank * longest : rank * longest + counts[rank]] for rank in range(world)]
    start = sum(counts[: get_rank()])
    return GatheredRows(torch.cat(blocks), slice(start, start + count), world * count / sum(counts))


def counts_of(rows: Tensor) -> list[int]:
    """Return the number of rows of each process."""
    world = get_world_size()
    if world == 1:
        return [len(rows)]
    own = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(own) for _ in range(world)]
    distributed.all_gather(counts, own)
    return [int(entry) for entry in counts]


def mean_weight(rows: Tensor) -> float:
    """Return the factor of the local mean with which the average over processes is the mean over all rows.

    It is 1 if all processes hold the same number of rows. Otherwise it is the local share of the rows times
    the number of processes.
    """
    counts = counts_of(rows)
    return len(counts) * len(rows) / sum(counts) if len(set(counts)) > 1 else 1.0


def draw_per_row(rows: Tensor, *, high: int) -> Tensor:
    """Draw an integer in 0 to `high` - 1 per row, `(b,)`, from torch's random numbers on the CPU.

    All processes have the same seed, so each draws for all of them and takes its own part. The draws are
    those of a single process with the whole batch, and restoring torch's generator restores them.
    """
    counts = counts_of(rows)
    drawn = torch.randint(high, (sum(counts),))  # (rows of all processes,)
    start = sum(counts[: get_rank()])
    return drawn[start : start + len(rows)]
