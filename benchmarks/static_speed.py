"""Texts a second of a static student, sentence-transformers, model2vec and the teacher, in turns.

python benchmarks/static_speed.py STUDENT TEACHER TEXTS.txt
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

from sentence_transformers import SentenceTransformer

from sentemb.data.sources import read_rows
from sentemb.encoding import load_encoder
from sentemb.evaluation.timing import time_in_turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("student", type=Path)
    parser.add_argument("teacher")
    parser.add_argument("texts")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--for-teacher", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    texts = [next(iter(row.values.values())) for row in islice(read_rows(options.texts), options.count)]
    student, teacher = load_encoder(options.student), load_encoder(options.teacher)
    plain = SentenceTransformer(str(options.student), device="cpu")
    few = texts[: options.for_teacher]
    ways = {
        "sentemb": (texts, lambda: student.encode(texts)),
        "sentence-transformers": (texts, lambda: plain.encode(texts)),
        "teacher": (few, lambda: teacher.encode(few)),
    }
    try:
        from model2vec import StaticModel
    except ImportError:
        print("model2vec is not installed")
    else:
        own = StaticModel.from_pretrained(options.student)
        ways["model2vec"] = (texts, lambda: own.encode(texts))
    taken = time_in_turns({name: run for name, (_, run) in ways.items()}, rounds=options.rounds, warm_up=1)
    speeds = {name: len(given) / min(taken[name]) for name, (given, _) in ways.items()}
    for name, speed in speeds.items():
        print(f"{name:24}{speed:12,.0f} texts a second{speed / speeds['teacher']:10.1f} times the teacher")


if __name__ == "__main__":
    main()
