"""The processes of one training: one, or several that torchrun or accelerate started, which share batches."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.data_loader import prepare_data_loader
from accelerate.utils import gather_object
from torch.utils.data import DataLoader

from sentemb.errors import InputError, ReportedError

Result = TypeVar("Result")


def process_state() -> PartialState:
    """Return which process this is, and how many there are."""
    # Without the flag, processes on a machine without an accelerator do not find each other.
    state = PartialState(cpu=not torch.accelerator.is_available())
    _part_at_exit()
    return state


@cache
def _part_at_exit() -> None:
    """Threads of a group that is still there when the interpreter is gone abort the process now and then."""

    def part() -> None:
        gc.collect()  # a wrapped model that is left over holds the group
        PartialState().destroy_process_group()

    atexit.register(part)


def refuse_several(what: str) -> None:
    """Raise InputError if several processes were started for what one does."""
    if (count := process_state().num_processes) > 1:
        raise InputError(
            f"{what} runs in a single process, but {count} were started", "start it without torchrun"
        )


def on_main(action: Callable[[], object]) -> None:
    """Run an action on the first process only; an error there ends all of them."""
    on_all(lambda: action() if process_state().is_main_process else None)


def on_all(action: Callable[[], Result]) -> Result:
    """Run an action on every process; an error on any of them ends all, and the first reports it."""
    state = process_state()
    if state.num_processes == 1:
        return action()
    problem: Exception | None = None
    try:
        result = action()
    except (InputError, OSError) as error:
        problem = error
    texts: list[str | None] = gather_object([None if problem is None else str(problem)])
    failed = [(rank, text) for rank, text in enumerate(texts) if text is not None]
    if not failed:
        return result
    if not state.is_main_process:
        raise ReportedError(str(failed[0][1]))
    raise problem or InputError(f"process {failed[0][0]}: {failed[0][1]}")


def share_of(rows: int, rank: int, world_size: int) -> slice:
    """Return which of a batch's rows are a rank's."""
    return slice(rows * rank // world_size, rows * (rank + 1) // world_size)


class SharedBatches:
    """One rank's part of every batch of a batch sampler; sizes differ by one row at most.

    All ranks together see what one process sees, in the same steps. A batch with fewer rows than ranks, which
    only the last of an epoch can be, is skipped.
    """

    def __init__(self, batches: Any, *, rank: int, world_size: int) -> None:
        self.batch_sampler, self.rank, self.world_size = batches, rank, world_size
        self.batch_size = batches.batch_size
        self.drop_last = getattr(batches, "drop_last", False)
        self.sampler = getattr(batches, "sampler", None)  # loaders set its epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        for inner in (self.batch_sampler, self.sampler):
            if inner is not None and hasattr(inner, "set_epoch"):
                inner.set_epoch(epoch)

    def __len__(self) -> int:
        rows = 0 if self.drop_last or self.sampler is None else len(self.sampler)
        is_short = bool(0 < rows % self.batch_size < self.world_size)
        return len(self.batch_sampler) - is_short

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batch_sampler:
            if len(batch) >= self.world_size:
                yield batch[share_of(len(batch), self.rank, self.world_size)]


def shared_loader(loader: DataLoader[Any], *, rank: int, world_size: int, device: Any) -> DataLoader[Any]:
    """Return a loader of one rank's part of the batches that a loader of whole ones gives."""
    # Puts in the sampler whose order is a function of seed and epoch, as for one process.
    whole = prepare_data_loader(loader, num_processes=1, process_index=0, use_seedable_sampler=True)
    shared: DataLoader[Any] = DataLoader(
        loader.dataset,
        batch_sampler=SharedBatches(whole.batch_sampler, rank=rank, world_size=world_size),
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        persistent_workers=loader.persistent_workers,
        prefetch_factor=loader.prefetch_factor,
    )
    prepared: DataLoader[Any] = prepare_data_loader(
        shared, device, num_processes=1, process_index=0, put_on_device=True
    )
    return prepared
