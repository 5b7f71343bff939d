"""SG-BERT's figure 4: what training on NLI sentences, not on those of STS-B, costs SG-OPT and BERT-flow.

Each method is trained on both, once for each seed, and judged on the seven STS sets; what it loses by the
change of domain stands below the table, beside what the paper reads off its figure:

    python eval/domain_shift.py --data-dir data --output runs/domain
    python eval/domain_shift.py --nli nli.tsv --columns premise,hypothesis --output runs/own

The paper takes "the mix" of SNLI and MNLI and names no size. Here as many pairs are drawn as STS-B has, so
that both runs have equally many steps: SG-OPT trains on their sentences one by one, the flow on the pairs.
Records, resumption and `--keep-models` are those of `eval/ablations.py`. From BERT-base a seed of SG-OPT is
1,079 steps of 16 sentences, of the flow 270 steps of 32 pairs on vectors that are encoded once.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import sentemb
from sentemb._files import new_folder, write_text
from sentemb.data.pair_sample import draw_pairs
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.seed_table import seed_table
from sentemb.training.progress import ConsoleProgress
from sentemb.training.study import Row, recipe_row
from sentemb.training.study_program import recipe_settings, run_study, study_parser
from sentemb.transforms import add_flow, flow_config
from sentemb.transforms.sentences import load_sentences

SEEDS = "1,2,3,4,1234,2345,3456,7890"  # table 8
STSB = "stsb-sentences"
STSB_PAIRS = 8628  # train, dev and test
FLOW_POOLING, FLOW_MAX_LENGTH = "last-2", 64  # the paper; the code of BERT-flow, while fitting
# Table 1, and less what section 5.2 says is lost on NLI.
PUBLISHED = {
    "sg-opt-stsb": "STS-B 77.23, average 74.62",
    "sg-opt-nli": "STS-B 75.40, average 72.99",
    "flow-stsb": "STS-B 71.35, average 68.77",
    "flow-nli": "STS-B 59.19, average 64.58",
}
LOST = {"sg-opt": (1.83, 1.63), "flow": (12.16, 4.19)}  # section 5.2: STS-B, average


def nli_pairs(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """As many pairs as asked for, always the same."""
    columns = None if options.columns is None else options.columns.split(",")
    return draw_pairs(options.nli, columns, count=options.pairs, data_dir=options.data_dir)


def sg_opt(name: str, options: argparse.Namespace) -> Row:
    """SG-OPT on sentences of STS-B or of NLI."""
    given = recipe_settings(options)
    if name.endswith("stsb"):
        return recipe_row(name, "sg-opt", {**given, "data": STSB})
    path = Path(options.output) / "nli-sentences.jsonl"
    texts = [text for pair in zip(*nli_pairs(options), strict=True) for text in pair]
    write_text(path, "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts))
    row = recipe_row(name, "sg-opt", {**given, "data": str(path)})
    return dataclasses.replace(row, settings={**row.settings, **source(options)})


def flow(name: str, options: argparse.Namespace) -> Row:
    """BERT-flow on the last two layers, fitted to pairs of STS-B or of NLI."""

    def train(folder: Path, seed: int, progress: ConsoleProgress | None) -> None:
        if folder.exists():
            return  # made as a whole, and only its record is missing
        on_stsb = name.endswith("stsb")
        sentences = load_sentences(STSB, data_dir=options.data_dir) if on_stsb else nli_pairs(options)
        model = sentemb.load(options.base, pooling=FLOW_POOLING)
        fitted = add_flow(model, *sentences, config=flow_config(seed=seed), max_length=FLOW_MAX_LENGTH)
        with new_folder(folder) as partial_folder:
            fitted.save(str(partial_folder), create_model_card=False)

    settings = dataclasses.asdict(flow_config()) | {"base": options.base, "pooling": FLOW_POOLING}
    del settings["seed"]
    settings |= {"data": STSB} if name.endswith("stsb") else source(options)
    return Row(name, {**settings, "max_length": FLOW_MAX_LENGTH}, train)


def source(options: argparse.Namespace) -> dict[str, str | int | None]:
    """What the NLI sentences are drawn from."""
    return {"nli": options.nli, "columns": options.columns, "pairs": options.pairs}


def rows(options: argparse.Namespace) -> dict[str, Callable[[], Row]]:
    """The bars of the figure."""
    return {name: partial(sg_opt if name.startswith("sg-opt") else flow, name, options) for name in PUBLISHED}


def losses(records: Sequence[ResultRecord]) -> list[str]:
    """Lines on what the methods lose that were trained on both."""
    lines = []
    for method, published in LOST.items():
        on_stsb, on_nli = (
            [record for record in records if record.model.startswith(f"{method}-{domain}-seed-")]
            for domain in ("stsb", "nli")
        )
        if not (on_stsb and on_nli):
            continue
        for name, paper in zip(("stsb", "average"), published, strict=True):
            scores = [[score_of(record, name) for record in side] for side in (on_stsb, on_nli)]
            if None not in scores[0] + scores[1]:
                lost = fmean(scores[0]) - fmean(scores[1])
                lines.append(f"{method} loses {lost:.2f} on NLI, {name} (the paper: {paper})")
    return lines


def score_of(record: ResultRecord, name: str) -> float | None:
    """Spearman x 100 of a set, or the average of the seven; None where the record lacks it."""
    found = record.average("all") if name == "average" else record.scores("all").get(name)
    return None if found is None else found.spearman


def main() -> None:
    """Read the command line, run and print."""
    parser = study_parser(__doc__, rows=list(PUBLISHED), seeds=SEEDS)
    parser.add_argument("--nli", default="simcse-nli", help="pairs: file, folder, hub id or catalogue name")
    parser.add_argument("--columns", help="its two text columns: premise,hypothesis")
    parser.add_argument(
        "--pairs", type=int, default=STSB_PAIRS, help="how many to draw; as many as STS-B has"
    )
    records = run_study(parser, rows)
    print(seed_table(records, published=PUBLISHED).markdown())
    print("\n".join(losses(records)))


if __name__ == "__main__":
    main()
