"""Measure texts per second of a static student, sentence-transformers, model2vec and the teacher.

Run it as `python benchmarks/static_speed.py static-mini all-MiniLM-L6-v2 captions.txt --output FILE`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from model2vec import StaticModel
from sentence_transformers import SentenceTransformer

from sentemb._files import write_json
from sentemb.data.sources import read_rows
from sentemb.encoding import load_encoder
from sentemb.evaluation.environment import hardware, library_versions, time_in_turns
from sentemb.modules.source import find_source


def main() -> None:
    """Measure, and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("student")
    parser.add_argument("teacher")
    parser.add_argument("texts", help="one a row")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--for-teacher", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    texts = [next(iter(row.values.values())) for row in islice(read_rows(options.texts), options.count)]
    folder = find_source(options.student).address
    student, teacher = load_encoder(folder), load_encoder(options.teacher)
    plain, own = SentenceTransformer(folder, device="cpu"), StaticModel.from_pretrained(folder)
    few = texts[: options.for_teacher]
    ways: dict[str, tuple[list[str], Callable[[], Any]]] = {
        "sentemb": (texts, lambda: student.encode(texts)),
        "sentence-transformers": (texts, lambda: plain.encode(texts)),
        "model2vec": (texts, lambda: own.encode(texts, use_multiprocessing=False)),
        "model2vec, processes": (texts, lambda: own.encode(texts)),  # its default from 10,000 texts on
        "teacher": (few, lambda: teacher.encode(few)),
    }
    taken = time_in_turns({name: run for name, (_, run) in ways.items()}, rounds=options.rounds, warm_up=1)
    speeds = {name: len(given) / min(taken[name]) for name, (given, _) in ways.items()}
    for name, speed in speeds.items():
        print(f"{name:24}{speed:12,.0f} texts a second{speed / speeds['teacher']:10.1f} times the teacher")
    if options.output is not None:
        about = {
            "student": options.student,
            "teacher": Path(options.teacher).name,
            "texts": {"file": Path(options.texts).name, "student": len(texts), "teacher": len(few)},
            "words": sum(len(text.split()) for text in few) / len(few),
        }
        facts = {"versions": library_versions(), "hardware": hardware()}
        write_json(options.output, {**about, "texts_per_second": speeds, **facts})


if __name__ == "__main__":
    main()
