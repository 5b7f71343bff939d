r"""Compare the quality drop that `sentemb compress` reports with the one on the seven STS sets.

    python benchmarks/compress.py --model all-MiniLM-L6-v2 --texts documents.jsonl \
        --output benchmarks/results/compress.json

Make the variants of the model and measure them as the command does: on STS-B's dev pairs, and on queries
generated from documents that were not used for calibration. Then evaluate each with `sentemb eval sts`:
Spearman x 100 on STS12 to STS16, STS-B's test set and SICK-R, and their mean. `inside` means that the change
of that mean lies in the interval of the reported drop. The interval covers other pairs like STS-B's dev
pairs, not other sets. Speed depends on what else this machine does. Results that `--output` already has for
the same model, student, documents and seed are not measured again.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import harness
import torch
from transformers.utils import logging as transformers_logging

from sentemb._files import read_json, write_json
from sentemb.compression.variants import (
    WHOLE,
    Original,
    Variant,
    draw_calibration_texts,
    student_variant,
    variants_of,
)
from sentemb.compression.write import Division, divide_documents, measure_variants
from sentemb.data.documents import read_unique_documents
from sentemb.data.generated_queries import generate_queries
from sentemb.data.sources import describe_source
from sentemb.data.sts import ScoredPairs, load_scored_pairs
from sentemb.encoding import load_encoder
from sentemb.evaluation.sts import evaluate_pairs, load_sets
from sentemb.modules import load
from sentemb.modules.cards import public_name
from sentemb.modules.source import find_source

SPEED_TEXTS, QUERIES = 256, 150
"""Texts that speed is measured on, and queries of each kind: the verb's own numbers."""


class Forms:
    """The forms of a model, each made once, when it is needed."""

    def __init__(self, original: Original, student: str | None, place: Path) -> None:
        self.original, self.place = original, place
        variants, self.missing = variants_of(original)
        students = [] if student is None else [student_variant(student)]
        self.variants: dict[str, Variant] = {one.name: one for one in [*variants, *students]}
        self.made: dict[str, dict[str, Any]] = {}

    def folder(self, name: str) -> Path:
        """The folder of a form."""
        folder = self.place / name
        if name not in self.made:
            folder.mkdir()
            self.made[name] = self.variants[name].build(folder)
        return folder


def priced(
    forms: Forms, parts: Division, pairs: Sequence[ScoredPairs], place: Path, seed: int
) -> dict[str, Any]:
    """What the verb says of all forms."""
    folders = {
        name: (forms.folder(name), load_encoder(forms.folder(name), device="cpu")) for name in forms.variants
    }
    found = measure_variants(
        folders,
        pairs,
        generate_queries(parts.evaluation, count=QUERIES, most=len(parts.evaluation), seed=seed),
        forms.original.texts[:SPEED_TEXTS],
        cache=place,
        seed=seed,
    )
    return {
        **harness.about(),
        "threads": torch.get_num_threads(),
        "pairs": found.pairs,
        "tasks": found.tasks,
        "texts_of_speed": found.texts,
        "missing": forms.missing,
        "variants": {
            row.name: {
                "meaning": forms.variants[row.name].meaning,
                "made": forms.made[row.name],
                "price": row.to_json(),
            }
            for row in found.rows
        },
    }


def evaluated(folder: Path, sets: Sequence[ScoredPairs], whole: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the seven sets say of a form; `whole` is what they say of the model itself."""
    record = evaluate_pairs(load_encoder(folder, device="cpu"), sets)  # on the CPU, as it was priced
    mean = record.average()
    return {
        "mean": mean,
        "difference": None if whole is None else mean - whole["mean"],
        "sets": {one.name: record.score(one.name) for one in sets},
    }


def line(name: str, one: Mapping[str, Any]) -> str:
    """A row for people."""
    told, seven = one["price"], one["seven"]
    costs = ", ".join(
        f"{label} {cost['difference']:+.2f} ({cost['interval'][0]:+.2f} to {cost['interval'][1]:+.2f})"
        for label, cost in (("STS-B dev", told["sts"]), ("NDCG@10", told["ndcg@10"]))
        if cost is not None
    )
    end = f"{seven['mean']:.2f}"
    if seven["difference"] is not None:
        low, high = (round(bound, 2) for bound in told["sts"]["interval"])  # as people see them
        side = "inside" if low <= round(seven["difference"], 2) <= high else "OUTSIDE"
        end += f" ({seven['difference']:+.2f}, {side})"
    size = f"{told['bytes'] / 1e6:.1f} MB, {told['texts_per_second']:,.0f} texts/s"
    return f"{name}: {size}, {costs or 'what the others are compared with'}; seven sets {end}"


def measure(arguments: argparse.Namespace, run: dict[str, Any], keep: Callable[[], None]) -> None:
    """Fill a run up, a line for each form that is done."""
    seed, data_dir = arguments.seed, arguments.data_dir
    sets = load_sets(data_dir=data_dir)
    dev = load_scored_pairs("stsb", split="dev", data_dir=data_dir)
    parts = divide_documents(read_unique_documents(arguments.texts, data_dir=data_dir), seed=seed)
    model = load(arguments.model, device="cpu")
    texts = draw_calibration_texts(parts.calibration, seed=seed)
    with tempfile.TemporaryDirectory() as place:
        original = Original(model, texts, find_source(arguments.model))
        forms = Forms(original, arguments.student, Path(place))
        if "variants" not in run:
            run["calibration"] = {"texts": len(parts.calibration), "priced": parts.shared}
            run |= priced(forms, parts, [dev], Path(place, "vectors"), seed)
            keep()
        rows = run["variants"]
        for name, row in rows.items():  # the model itself first
            if "seven" not in row:
                whole = None if name == WHOLE else rows[WHOLE]["seven"]
                row["seven"] = evaluated(forms.folder(name), sets, whole)
                keep()
            print(line(name, row), flush=True)


def asked(arguments: argparse.Namespace) -> dict[str, Any]:
    """What decides the numbers of a run."""
    models = {"model": arguments.model, "student": arguments.student}
    return {
        **{kind: None if name is None else public_name(name) for kind, name in models.items()},
        "fingerprints": [load_encoder(name, device="cpu").fingerprint for name in models.values() if name],
        "documents": describe_source(arguments.texts, data_dir=arguments.data_dir),
        "seed": arguments.seed,
    }


def main() -> None:
    """Measure, and write JSON."""
    paths = {"data_dir": (str, None), "output": Path}
    arguments = harness.options(__doc__, model=str, texts=str, student=(str, None), seed=1, **paths)
    logging.disable(logging.WARNING)
    transformers_logging.disable_progress_bar()
    runs = read_json(arguments.output)["runs"] if arguments.output.exists() else []
    settings = asked(arguments)
    run = next((one for one in runs if one["asked"] == settings), None)
    if run is None:
        runs.append(run := {"asked": settings})
    measure(arguments, run, lambda: write_json(arguments.output, {"runs": runs}))


if __name__ == "__main__":
    main()
