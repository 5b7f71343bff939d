r"""Measure what a training step of each objective after SimCSE costs, in time and memory, relative to SimCSE.

    python benchmarks/objectives.py --texts sentences.txt --output benchmarks/results/objectives.json

All objectives train copies of one encoder in one process, in turns, each on the same batches: forward,
backward and AdamW. Tokenizing is left out, and so are teachers, whose vectors are computed once per training.
The memory is the peak of a process that trains one objective, above what it held with the model loaded.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import harness
import torch

import sentemb
from sentemb import losses
from sentemb.augmentation import negate
from sentemb.data.sources import read_rows
from sentemb.evaluation.environment import time_in_turns

CORPUS = 10_000  # sentences of RankEncoder
LOSSES: dict[str, Callable[[Any], Any]] = {
    "simcse": losses.SimCSELoss,
    "simcse-plus-plus": losses.SimCSEPlusPlusLoss,
    "focal-infonce": losses.FocalInfoNCELoss,
    "rankcse": losses.RankCSELoss,
    "rankencoder": lambda model: losses.RankEncoderLoss(model, corpus=torch.randn(CORPUS, 256)),
    "sncse": losses.SNCSELoss,
    "esimcse": losses.ESimCSELoss,
    "promptbert": losses.PromptBERTLoss,
    "sg-opt": losses.SelfGuidedLoss,
}


class Training:
    """One objective on a copy of the encoder."""

    def __init__(self, name: str, given: Any) -> None:
        torch.manual_seed(0)
        pooling = "prompt" if name == "promptbert" else "cls"
        length = 42 if name == "promptbert" else 32
        self.name = name
        self.model = sentemb.load(given.base, pooling=pooling, max_length=length, device="cpu").train()
        self.loss = LOSSES[name](self.model).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-5)
        self.batches: list[tuple[list[dict[str, Any]], torch.Tensor | None]] = []

    def prepare(self, batches: list[list[str]]) -> None:
        """Tokenize the batches."""
        for texts in batches:
            columns = [self.model.preprocess(texts)]
            if self.name == "sncse":
                columns.append(self.model.preprocess(list(map(negate, texts))))
            has_targets = self.name in ("rankcse", "rankencoder")
            self.batches.append((columns, torch.randn(len(texts), 256) if has_targets else None))

    def step(self) -> None:
        """Train on the next batch."""
        columns, targets = self.batches[0]
        self.batches.append(self.batches.pop(0))
        value = self.loss(columns, targets)
        self.optimizer.zero_grad()
        (sum(value.values()) if isinstance(value, dict) else value).backward()
        self.optimizer.step()


def peak(name: str, given: Any, batches: list[list[str]], answer: Any) -> None:
    """Send the MiB that the steps take above the loaded model."""
    training = Training(name, given)
    training.prepare(batches)
    before = getrusage(RUSAGE_SELF).ru_maxrss
    for _ in batches:
        training.step()
    answer.put((getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> None:
    given = harness.options(
        __doc__ or "",
        texts=str,  # one a row
        base="bert-mini",
        batch_size=64,
        rounds=10,
        output=(Path, None),
    )
    torch.set_num_threads(1)
    texts = [next(iter(row.values.values())) for row in islice(read_rows(given.texts), 20_000)]
    drawn = random.Random(0)
    batches = [drawn.sample(texts, given.batch_size) for _ in range(given.rounds)]
    context, memory = multiprocessing.get_context("spawn"), {}
    for name in LOSSES:
        answer = context.SimpleQueue()
        process = context.Process(target=partial(peak, name, given, batches, answer))
        process.start()
        memory[name] = answer.get()
        process.join()
    trainings = {name: Training(name, given) for name in LOSSES}
    for training in trainings.values():
        training.prepare(batches)
    steps = {name: training.step for name, training in trainings.items()}
    taken = time_in_turns(steps, rounds=given.rounds, warm_up=2)
    seconds = {name: statistics.median(times) for name, times in taken.items()}
    rows = {
        name: {
            "ms": 1000 * seconds[name],
            "of_simcse": seconds[name] / seconds["simcse"],
            "mib": memory[name],
            "mib_of_simcse": memory[name] / memory["simcse"],
        }
        for name in LOSSES
    }
    forms = {"ms": ".0f", "of_simcse": ".2f", "mib": ".0f", "mib_of_simcse": ".2f"}
    header = ["objective", "ms a step", "of SimCSE", "MiB of a step", "of SimCSE"]
    print(harness.markdown(header, [[name, *harness.cells(row, forms)] for name, row in rows.items()]))
    harness.save(given.output, base=given.base, batch_size=given.batch_size, rounds=given.rounds, rows=rows)


if __name__ == "__main__":
    main()
