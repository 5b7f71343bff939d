r"""SentEval's transfer and probing tasks: classifiers on frozen sentence vectors.

    python eval/senteval.py sentence-transformers/all-MiniLM-L6-v2 --data-dir data --output eval/results
    python eval/senteval.py sg-bert-mini --tasks cr,mrpc --preset simcse-fast --data-dir data --output out
    python eval/senteval.py bert-base-uncased --pooling cls --preset sg-bert \
        --seeds 1,2,3,4,1234,2345,3456,7890 --data-dir data --output eval/results
    python eval/senteval.py sg-bert-mini --tasks stsb-trained,sickr-trained --data-dir data --output out

The presets are those that published numbers were made with: sg-bert (SG-BERT's table 9: one hidden layer),
simcse and simcse-fast (SimCSE's tables: logistic regression in two settings), and logreg, which has no seed.
Accuracies under different presets do not compare. Besides the seven tasks of the papers there are sst5 and
sick-e; `probing`, the ten probing tasks, or their names; and stsb-trained and sickr-trained, the regression
that SentEval trains on these sets, which no preset changes. Every model leaves a record with its prediction
for every row; without a model the tables are made of all records in the output folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sentemb.cli.eval_classify import parse_numbers
from sentemb.encoding import load_encoder
from sentemb.evaluation.environment import command_line
from sentemb.evaluation.transfer import PRESETS, PROBING_TASKS, TRANSFER_TASKS, evaluate_transfer
from sentemb.evaluation.transfer.records import read_transfers, write_transfer
from sentemb.evaluation.transfer.table import relatedness_table, transfer_seed_table
from sentemb.training.program import run_with_options

_GROUPS = {"transfer": TRANSFER_TASKS, "probing": PROBING_TASKS}


def judge(options: argparse.Namespace) -> str:
    """Judge every model that is named and make the tables.

    Args:
        options: The command line.

    Returns:
        The tables in markdown.

    Raises:
        InputError: A model, a task, an option or the data cannot be used.
    """
    seeds = parse_numbers("seeds", options.seeds)
    for model in options.models:
        reports = evaluate_transfer(
            load_encoder(model, pooling=options.pooling, data_dir=options.data_dir),
            [name for given in options.tasks.split(",") for name in _GROUPS.get(given, (given,))],
            preset=options.preset,
            seeds=seeds,
            data_dir=options.data_dir,
            progress=True,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
        for report in reports:
            write_transfer(report, options.output, command=command_line())
    reports = read_transfers(options.output)
    presets = [preset for preset in PRESETS if any(report.preset == preset for report in reports)]
    tables = [transfer_seed_table(reports, preset) for preset in presets]
    if any(report.relatedness for report in reports):
        tables.append(relatedness_table(reports))
    return "\n".join(table.markdown() for table in tables if table.rows)


def main() -> None:
    """Read the command line, judge and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help="folder, hub id or word-vector file")
    parser.add_argument("--output", type=Path, required=True, help="folder for records")
    parser.add_argument("--tasks", default="transfer", help="names with commas between (default: the seven)")
    parser.add_argument("--preset", choices=list(PRESETS), default="simcse")
    parser.add_argument("--seeds", default="1111", help="of the classifiers: 1,2,3")
    parser.add_argument("--pooling", help="for a raw transformer: cls, mean, first-last, ...")
    parser.add_argument("--data-dir", type=Path, help="folder with SentEval's data (default: SENTEMB_DATA)")
    print(run_with_options(parser, judge))


if __name__ == "__main__":
    main()
