"""SG-BERT's table 1 as far as nothing is trained: what a frozen encoder says under every pooling.

Poolings of the last layer (cls, mean, max) and of two layers (first-last, last-2), WK pooling, BERT-whitening
of first-last and BERT-flow of last-2. The last two are fitted on the sentences of STS-B without their scores,
the flow once for each seed:

    python eval/frozen.py --data-dir data --output runs/frozen
    python eval/frozen.py --base bert-mini --rows cls,flow --seeds 1,2 --data-dir data --output runs/small

All rows are judged with one pass of the sentences through the encoder. Every row leaves a result record
(JSON) with its predictions, and what has one is not judged again. `python eval/sts.py --output runs/frozen`
shows every protocol.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sentence_transformers import SentenceTransformer

from sentemb.data.sts import STS_SETS
from sentemb.encoding import encode_together
from sentemb.encoding.resolve import name_of
from sentemb.evaluation.environment import command_line
from sentemb.evaluation.judge import judge_sts
from sentemb.evaluation.records import prepare_folder, read_record, write_record
from sentemb.evaluation.result import ResultRecord, file_name_of
from sentemb.evaluation.seed_table import seed_table
from sentemb.evaluation.sts import load_sets
from sentemb.modules import load
from sentemb.training.program import run_with_options
from sentemb.training.study_program import rows_and_seeds
from sentemb.transforms import FlowConfig, add_flow, add_whitening
from sentemb.transforms.sentences import Sentences, load_sentences

POOLINGS = ("cls", "mean", "max", "first-last", "last-2", "wk")
FITTED = {"whitening": "first-last", "flow": "last-2"}  # the poolings of their papers
FITTED_LENGTH = 64  # BERT-flow's released code


class Member(NamedTuple):
    """A row with a seed, or without one where nothing is drawn."""

    name: str
    seed: int | None
    make: Callable[[], SentenceTransformer]


def members(options: argparse.Namespace) -> Iterator[Member]:
    """What the command line asks for."""
    names, seeds = rows_and_seeds(options, [*POOLINGS, *FITTED])
    base = name_of(options.base)
    for name in names:
        if name in POOLINGS:
            yield Member(f"{base}-{name}", None, partial(pooled, options.base, name))
        elif name == "whitening":
            yield Member(f"{base}-{name}", None, partial(whitened, options))
        else:
            for seed in seeds:
                yield Member(f"{base}-{name}-seed-{seed}", seed, partial(with_flow, options, seed))


def pooled(base: str, pooling: str) -> SentenceTransformer:
    """The encoder with a pooling."""
    return load(base, pooling=pooling)  # type: ignore[arg-type]  # one of POOLINGS


def whitened(options: argparse.Namespace) -> SentenceTransformer:
    """The encoder with whitening."""
    sentences = target_sentences(options)
    texts = [*sentences.first, *(sentences.second or ())]
    model = pooled(options.base, FITTED["whitening"])
    return add_whitening(model, texts, max_length=FITTED_LENGTH, cache_dir=options.vectors)


def with_flow(options: argparse.Namespace, seed: int) -> SentenceTransformer:
    """The encoder with a flow of the paper's configuration."""
    print(f"fitting the flow, seed {seed}", file=sys.stderr, flush=True)
    model = pooled(options.base, FITTED["flow"])
    return add_flow(
        model,
        *target_sentences(options),
        config=FlowConfig(seed=seed),
        max_length=FITTED_LENGTH,
        cache_dir=options.vectors,
    )


def target_sentences(options: argparse.Namespace) -> Sentences:
    """What is fitted on, by default the papers' sentences of STS-B."""
    return load_sentences(options.data, data_dir=options.data_dir)


def judge(options: argparse.Namespace) -> list[ResultRecord]:
    """Fit and judge what has no record yet."""
    prepare_folder(options.output)
    pairs = load_sets(options.sets.split(","), data_dir=options.data_dir)
    wanted = list(members(options))
    paths = [options.output / file_name_of(one.name, protocol="all", seed=one.seed) for one in wanted]
    missing = [one for one, path in zip(wanted, paths, strict=True) if not path.exists()]
    if missing:
        with tempfile.TemporaryDirectory() as folder:
            options.vectors = folder  # what is fitted on is encoded once for all seeds
            encoders = encode_together({one.name: one.make() for one in missing})
        for one, encoder in zip(missing, encoders, strict=True):
            record = judge_sts(encoder, pairs, seed=one.seed, command=command_line(), progress=True)
            write_record(record, options.output)
    return [read_record(path) for path in paths]


def main() -> None:
    """Judge the rows and print the table in markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="bert-base-uncased", help="base model: folder or hub id")
    parser.add_argument("--rows", default=",".join([*POOLINGS, *FITTED]), help="all by default")
    parser.add_argument("--seeds", default="1,2,3,4,1234,2345,3456,7890", help="seeds of the flow; table 8's")
    parser.add_argument("--sets", default=",".join(STS_SETS), help="STS sets to judge on; the papers' seven")
    parser.add_argument("--data", default="stsb-sentences", help="what flow and whitening fit")
    parser.add_argument("--data-dir", type=Path, help="folder with SentEval's data (default: SENTEMB_DATA)")
    parser.add_argument("--output", type=Path, required=True, help="folder for result records")
    print(seed_table(run_with_options(parser, judge)).markdown())


if __name__ == "__main__":
    main()
