"""Measure texts per second of a static student, sentence-transformers, model2vec and the teacher.

The words of the texts are known after the warm-up, except in the first call of a new encoder. Ratios are to
the faster way of model2vec.

Run `python benchmarks/static_speed.py --student static-mini --teacher all-MiniLM-L6-v2 --texts captions.txt`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import harness
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer

from sentemb.data.sources import read_rows
from sentemb.encoding import load_encoder
from sentemb.evaluation.environment import time_in_turns
from sentemb.modules.source import find_source


def measure(given: argparse.Namespace, texts: list[str]) -> dict[str, float]:
    """Return the texts per second of each way."""
    folder = find_source(given.student).address
    student, teacher = load_encoder(folder), load_encoder(given.teacher)
    plain, own = SentenceTransformer(folder, device="cpu"), StaticModel.from_pretrained(folder)
    few = texts[: given.for_teacher]
    new = iter([load_encoder(folder) for _ in range(given.rounds + 1)])
    ways: dict[str, tuple[list[str], Callable[[], Any]]] = {
        "sentemb": (texts, lambda: student.encode(texts)),
        "sentemb, first call": (texts, lambda: next(new).encode(texts)),
        "sentence-transformers": (texts, lambda: plain.encode(texts)),
        "model2vec": (texts, lambda: own.encode(texts, use_multiprocessing=False)),
        "model2vec, processes": (texts, lambda: own.encode(texts)),  # its default from 10,000 texts on
        "teacher": (few, lambda: teacher.encode(few)),
    }
    taken = time_in_turns({name: run for name, (_, run) in ways.items()}, rounds=given.rounds, warm_up=1)
    return {name: len(some) / min(taken[name]) for name, (some, _) in ways.items()}


def main() -> None:
    given = harness.options(
        __doc__,
        student=str,
        teacher=str,
        texts=str,  # one a row
        count=20_000,
        for_teacher=500,
        rounds=5,
        output=(Path, None),
    )
    texts = [next(iter(row.values.values())) for row in islice(read_rows(given.texts), given.count)]
    speeds = measure(given, texts)
    other = max(speed for name, speed in speeds.items() if name.startswith("model2vec"))
    for name, speed in speeds.items():
        print(f"{name:24}{speed:12,.0f} texts a second{speed / other:10.2f} times model2vec")
    harness.save(
        given.output,
        student=given.student,
        teacher=Path(given.teacher).name,
        texts={"file": Path(given.texts).name, "student": len(texts), "teacher": given.for_teacher},
        words=sum(len(text.split()) for text in texts) / len(texts),
        texts_per_second=speeds,
    )


if __name__ == "__main__":
    main()
