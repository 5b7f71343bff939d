"""SG-BERT's table 6: training and encoding time of the methods, measured in one run.

Training is one pass over the sentences of STS-B, from loading the base to saving the model, without a dev
set. Inference is encoding and scoring STS-B test, each unique sentence once, with sentemb's default batch
size:

    python eval/efficiency.py --data-dir data --output runs/efficiency
    python eval/efficiency.py --base bert-mini --sentences 512 --rounds 3 --data-dir data --output runs/small

The methods are interleaved in each round, so other load on the machine affects all of them. The table has
medians and ratios to mean pooling. `--sentences N` trains on the first N sentences. The output folder gets
`efficiency.json` with every round, the machine and the versions, and the table as `efficiency.md`. The paper
used a Titan Xp.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

import sentemb
from sentemb._files import check_writable, write_json, write_text
from sentemb.data import load_columns, load_scored_pairs
from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.errors import InputError, unknown
from sentemb.evaluation import evaluate_pairs
from sentemb.evaluation.environment import hardware, library_versions, time_in_turns
from sentemb.report.table import ABSENT, Table
from sentemb.training import resolve, train
from sentemb.training.outcome import run_with_options
from sentemb.transforms import FlowConfig, add_flow, add_whitening

PUBLISHED = {  # table 6, BERT-base: training, inference
    "mean": ("–", "13.94"),
    "wk": ("–", "197.03"),
    "flow": ("155.37", "28.49"),
    "sg-opt": ("455.02", "10.51"),
}
POOLINGS = ("mean", "cls", "wk")
TRANSFORMS = {"flow": "last-2", "whitening": "first-last"}  # with the poolings of their papers
RECIPES = ("sg-opt", "sg", "simcse")
METHODS = (*POOLINGS, *TRANSFORMS, *RECIPES)
REFERENCE = "mean"
BATCH = 16  # section 5.3, for all methods


class Times(NamedTuple):
    """Seconds of a method, one for each round."""

    training: Sequence[float]  # of training or fitting; empty where there is none
    inference: Sequence[float]  # of encoding and scoring


def train_recipe(recipe: str, options: argparse.Namespace, data: Path, folder: Path) -> None:
    """Train one pass over the sentences, replacing the model of the previous round."""
    shutil.rmtree(folder, ignore_errors=True)
    given = {"base": options.base, "data": str(data), "output": str(folder), "dev": "none"}
    train(resolve(recipe, overrides={**given, "seeds": (1,), "batch_size": BATCH}))


def fit_transform(method: str, options: argparse.Namespace, texts: list[str], folder: Path) -> None:
    """Fit the flow in one pass over the sentences, or whitening on their covariance."""
    shutil.rmtree(folder, ignore_errors=True)
    model = sentemb.load(options.base, pooling=TRANSFORMS[method])
    if method == "flow":
        fitted = add_flow(model, texts, config=FlowConfig(batch_size=BATCH))
    else:
        fitted = add_whitening(model, texts)
    fitted.save(str(folder), create_model_card=False)


def time_methods(
    methods: list[str], options: argparse.Namespace, texts: list[str], pairs: ScoredPairs
) -> dict[str, Times]:
    """Train, then encode, with the methods interleaved."""
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "sentences.jsonl"
        write_text(data, "".join(json.dumps({"text": text}) + "\n" for text in texts))
        folders = {method: Path(scratch) / method for method in methods if method not in POOLINGS}
        training: dict[str, Callable[[], object]] = {
            method: partial(train_recipe, method, options, data, folder)
            if method in RECIPES
            else partial(fit_transform, method, options, texts, folder)
            for method, folder in folders.items()
        }
        trained = time_in_turns(training, rounds=options.rounds)
        encoders = {
            method: load_encoder(folders[method])
            if method in folders
            else load_encoder(options.base, pooling=method)
            for method in methods
        }
        # The first round finds the fastest linear kernel of each model.
        inferred = time_in_turns(
            {method: partial(evaluate_pairs, encoder, [pairs]) for method, encoder in encoders.items()},
            rounds=options.rounds,
            warm_up=1,
        )
    return {method: Times(trained.get(method, []), inferred[method]) for method in methods}


def efficiency_table(times: Mapping[str, Times], *, title: str) -> Table:
    """Tabulate the median seconds of methods, with ratios to the reference and the paper's seconds."""
    base = median(times[REFERENCE].inference)
    rows = []
    for name, one in times.items():
        training = f"{median(one.training):.2f}" if one.training else ABSENT
        seconds = median(one.inference)
        paper = PUBLISHED.get(name, (ABSENT, ABSENT))
        rows.append((name, training, f"{seconds:.2f}", f"{seconds / base:.2f}", *paper))
    columns = ("method", "training s", "inference s", f"× {REFERENCE}")
    return Table(
        title=title,
        header=(*columns, "published training s", "published inference s"),
        rows=tuple(rows),
        notes=(
            f"medians over {len(times[REFERENCE].inference)} rounds; each round measures every method once",
            "the published seconds were measured on another machine: compare ratios only",
        ),
    )


def measure(options: argparse.Namespace) -> str:
    """Measure, write both files and return the table."""
    methods = options.methods.split(",")
    for method in methods:
        if method not in METHODS:
            raise unknown("method", method, METHODS)
    if REFERENCE not in methods:
        raise InputError(
            f"{REFERENCE} is not among the methods", "add it, because the others are compared with it"
        )
    check_writable(options.output)
    pairs = load_scored_pairs("stsb", split="test", data_dir=options.data_dir)
    texts = list(load_columns("stsb-sentences", data_dir=options.data_dir)["text"])[: options.sentences]
    times = time_methods(methods, options, texts, pairs)
    machine = hardware() | {"threads": torch.get_num_threads()}
    place = machine["accelerators"] or [f"{machine['processor']}, {machine['threads']} threads"]
    table = efficiency_table(
        times,
        title=f"Seconds from {options.base}: one pass over {len(texts):,} sentences in batches of {BATCH}; "
        f"STS-B test, {len(pairs):,} pairs; {place[0]}",
    ).markdown()
    described = {"base": options.base, "sentences": len(texts), "pairs": len(pairs), "batch_size": BATCH}
    rounds = {method: one._asdict() for method, one in times.items()}
    record = {**described, "hardware": machine, "versions": library_versions(), "seconds": rounds}
    write_json(options.output / "efficiency.json", record)
    write_text(options.output / "efficiency.md", table)
    return table


def main() -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--base", default="bert-base-uncased", help="pretrained transformer: folder or hub id"
    )
    parser.add_argument(
        "--methods",
        default=",".join(METHODS),
        help=f"methods, separated by commas; any of {','.join(METHODS)}",
    )
    parser.add_argument("--sentences", type=int, help="train on the first N sentences; all 17,256 by default")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per method")
    parser.add_argument("--data-dir", help="folder with data sets; SENTEMB_DATA by default")
    parser.add_argument("--output", type=Path, required=True, help="folder for efficiency.json and .md")
    print(run_with_options(parser, measure))


if __name__ == "__main__":
    main()
