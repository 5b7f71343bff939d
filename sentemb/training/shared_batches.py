"""Batches that several ranks share: each takes its part of every one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader


class SharedBatches:
    """One rank's part of every batch of a batch sampler; sizes differ by one row at most.

    All ranks together see what one process sees, in the same steps. A batch with fewer rows than ranks, which
    only the last of an epoch can be, is left out.

    Args:
        batches: The batch sampler, which gives the same batches on every rank.
        rank: Which rank this is.
        world_size: How many there are.
    """

    def __init__(self, batches: Any, *, rank: int, world_size: int) -> None:
        self.batch_sampler = batches
        self.rank, self.world_size = rank, world_size
        self.batch_size = batches.batch_size
        self.drop_last = getattr(batches, "drop_last", False)

    @property
    def sampler(self) -> Any:
        """The sampler of rows, if there is one, whose epoch loaders set."""
        return getattr(self.batch_sampler, "sampler", None)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        for inner in (self.batch_sampler, self.sampler):
            if hasattr(inner, "set_epoch"):
                inner.set_epoch(epoch)

    def __len__(self) -> int:
        rows = None if self.drop_last or self.sampler is None else len(self.sampler)
        short = rows is not None and 0 < rows % self.batch_size < self.world_size
        return len(self.batch_sampler) - short

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batch_sampler:
            if len(batch) >= self.world_size:
                yield batch[share_of(len(batch), self.rank, self.world_size)]


def share_of(rows: int, rank: int, world_size: int) -> slice:
    """Which of a batch's rows are a rank's."""
    return slice(rows * rank // world_size, rows * (rank + 1) // world_size)


def shared_loader(loader: DataLoader[Any], *, rank: int, world_size: int, device: Any) -> DataLoader[Any]:
    """A loader of one rank's part of the batches that a loader of whole ones gives."""
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
