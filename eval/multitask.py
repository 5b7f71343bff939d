r"""Tables of the CS224N paper: several tasks on one encoder, our mean over seeds beside its figures.

    python eval/multitask.py --data-dir data --output results/multitask
    python eval/multitask.py --tables 1,6 --seeds 1,2,3 --data-dir data --output results/multitask

Each row is trained once for each seed and leaves a record; rows that tables share are trained once, and
what is finished is not trained again. All tables for which --output holds records are written to its
tables.md. The paper's sizes take days without an accelerator; a smaller study in two processes:

    OMP_NUM_THREADS=1 python eval/multitask.py --base bert-mini --held-out 0.2 --rows 400 --jobs 2 \
        --set epochs=3 --set contrast_epochs=1 --set nli_epochs=1 --set learning_rate=1e-4 \
        --set contrast_learning_rate=1e-4 --set max_length=64 --nli nli.csv --data-dir data \
        --output results/small
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sentemb._files import write_text
from sentemb.cli.eval_classify import parse_numbers
from sentemb.multitask import load_task_sets, read_nli_columns, resolve_multitask
from sentemb.multitask.config import MultiTaskConfig
from sentemb.multitask.paper import PAPER_TABLES
from sentemb.multitask.records import read_rows
from sentemb.multitask.stages import uses_nli
from sentemb.multitask.study import rows_of_tables, run_rows
from sentemb.multitask.tables import multitask_tables
from sentemb.training import split_settings
from sentemb.training.program import run_with_options


def configurations(options: argparse.Namespace) -> list[MultiTaskConfig]:
    """One configuration for each row and seed, whole seeds in turn.

    Args:
        options: The command line.

    Returns:
        The configurations.

    Raises:
        InputError: A number or a setting cannot be used.
    """
    return [
        resolve_multitask(
            row,
            overrides={
                "base": options.base,
                "output": str(options.runs / row / f"seed-{seed}"),
                "seeds": [seed],
            },
            assignments=split_settings(options.set),
        )
        for seed in parse_numbers("seeds", options.seeds)
        for row in rows_of_tables(parse_numbers("tables", options.tables))
    ]


def study(options: argparse.Namespace) -> str:
    """Train what has no record and make the tables.

    Args:
        options: The command line.

    Returns:
        The tables in markdown.

    Raises:
        InputError: Options or data cannot be used.
    """
    configs = configurations(options)
    train, dev = load_task_sets(data_dir=options.data_dir, held_out=options.held_out)
    train, dev = train.sample(options.rows), dev.sample(options.dev_rows)
    needs_nli = any(map(uses_nli, configs))
    nli = read_nli_columns(options.nli, data_dir=options.data_dir, rows=options.rows) if needs_nli else []
    say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    run_rows(configs, train, dev, nli=nli, folder=options.output, jobs=options.jobs, say=say)
    tables = multitask_tables(read_rows(options.output), list(PAPER_TABLES))
    shown = "\n".join(table.markdown() for table in tables if any(row[1] != "–" for row in table.rows))
    command = " ".join(["python", *sys.argv])
    write_text(options.output / "tables.md", f"    {command}\n\n{shown}")
    return shown


def main() -> None:
    """Read the command line, train and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for records and tables")
    parser.add_argument("--tables", default="1,2,3,4,6,7", help="numbers of the paper's tables")
    parser.add_argument("--seeds", default="1,2,3", help="one run each: 1,2,3")
    parser.add_argument("--base", help="base model: folder or hub id; the paper's by default")
    parser.add_argument("--data-dir", help="folder that holds cs224n/; SENTEMB_DATA by default")
    parser.add_argument("--nli", default="simcse-nli", help="triples: a file or a catalogue name")
    parser.add_argument(
        "--held-out", type=float, help="divide quora-dev.csv, and judge by so large a share of it"
    )
    parser.add_argument("--rows", type=int, help="train on so many rows of each set")
    parser.add_argument("--dev-rows", type=int, help="judge by so many rows of each set")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting")
    parser.add_argument("--runs", type=Path, default=Path("runs/multitask"), help="folder of unfinished runs")
    parser.add_argument("--jobs", type=int, default=1, help="processes that train")
    print(run_with_options(parser, study))


if __name__ == "__main__":
    main()
