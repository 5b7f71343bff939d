"""Records made of numbers, for tests of what is done with records, and small sets to score."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sentemb.evaluation.schema import DataSet, Environment, Record, Score
from sentemb.evaluation.suites import get_suite

STS12_PARTS = ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews")
ENVIRONMENT = Environment(versions={}, hardware={}, date="2026-01-01T00:00:00+00:00")


def data_set(name: str, items: int = 1, *, split: str = "test", content: str = "", **fields: Any) -> DataSet:
    """A data set; its checksum follows from its name and `content`."""
    digest = hashlib.sha256((name + content).encode()).hexdigest()
    return DataSet(name=name, split=split, items=items, sha256=digest, **fields)


def make_record(
    suite: str,
    model: str,
    datasets: Sequence[DataSet],
    scores: Iterable[Score | tuple[str, str, float]],
    **fields: Any,
) -> Record:
    """A record with scores of (data set, metric, value); `fields` name what is not usual about it."""
    given = {
        "fingerprint": hashlib.sha256(model.encode()).hexdigest(),
        "protocol": get_suite(suite).protocol,
        "environment": ENVIRONMENT,
    }
    return Record(
        suite=suite,
        model=model,
        datasets=tuple(datasets),
        scores=tuple(
            one if isinstance(one, Score) else Score(dataset=one[0], metric=one[1], value=one[2])
            for one in scores
        ),
        **(given | fields),
    )


def write_senteval(data: Path, pairs: Sequence[tuple[str, str, float]], *sets: str) -> Path:
    """Write STS12 (eight pairs a part), STS-B or SICK as SentEval's folder has them."""
    root = data / "senteval" / "downstream"
    files: dict[str, list[str]] = {}
    if "STS12" in sets:
        for part in STS12_PARTS:
            files[f"STS/STS12-en-test/STS.input.{part}.txt"] = [f"{one}\t{two}" for one, two, _ in pairs[:8]]
            files[f"STS/STS12-en-test/STS.gs.{part}.txt"] = [f"{score}" for *_, score in pairs[:8]]
    if "STS-B" in sets:
        rows = [f"g\tf\t2012\t{n}\t{score}\t{one}\t{two}" for n, (one, two, score) in enumerate(pairs)]
        files |= {f"STS/STSBenchmark/sts-{split}.csv": rows for split in ("train", "dev", "test")}
    if "SICK" in sets:
        rows = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
        rows += [f"{n}\t{one}\t{two}\t{score}\tNEUTRAL" for n, (one, two, score) in enumerate(pairs[:10])]
        files |= {f"SICK/SICK_{name}.txt": rows for name in ("train", "trial", "test_annotated")}
    for name, lines in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(f"{line}\n" for line in lines))
    return data
