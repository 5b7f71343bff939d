"""The survival experiment in a row per objective, from its records.

    python eval/survival.py eval/results/survival/tuned --costs benchmarks/results/objectives.json \
        --output eval/results/survival/tuned/table.md

The folder is the output of `sentemb experiment survival`, and `--costs` that of `benchmarks/objectives.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from sentemb._files import read_json, write_text
from sentemb.evaluation.record import load_records
from sentemb.evaluation.schema import Record
from sentemb.experiments import load_experiment
from sentemb.experiments.comparisons import headlines, rank_table
from sentemb.experiments.tables import Key, Summary, Verdict, summarize, verdicts_of
from sentemb.report.table import ABSENT, Table, mean_cell
from sentemb.training.outcome import run_with_options


def survival_table(records: Sequence[Record], costs: Mapping[str, float]) -> Table:
    """Return average, rank and verdicts of each objective at each dev set, the best first."""
    experiment = load_experiment("survival")
    summaries = headlines(summarize(records))
    ranked = rank_table(summaries)
    ranks = {row[0]: dict(zip(ranked.header, row, strict=True)) for row in ranked.rows} if ranked else {}
    verdicts = [verdicts_of(summaries, name) for name in experiment.baselines]
    rows = []
    for value in experiment.values:
        own = [one for one in summaries if one.setting.value == value]
        for one in sorted(own, key=lambda one: -one.mean):
            place = ranks.get(one.label, {}).get(f"{one.data} at {value}", ABSENT)
            cost = f"{costs[one.label]:.2f}" if one.label in costs else ABSENT
            cells = [mean_cell(one.scores, 1, scale=one.factor), place]
            cells += [_difference(one, found) for found in verdicts]
            rows.append((one.label, str(value), *cells, cost))
    compared = [f"compared with {name}" for name in experiment.baselines]
    header = ("objective", "dev", "average", "rank", *compared, "time")
    return Table("", header, tuple(rows))


def _difference(one: Summary, verdicts: Mapping[Key, Verdict]) -> str:
    """Return the difference of averages over common seeds, with its arrow."""
    verdict = verdicts.get(one.key)
    if verdict is None or verdict.difference is None:
        return ABSENT
    return f"{verdict.difference.size:+.1f}{verdict.marker}"


def write(options: argparse.Namespace) -> str:
    """Write the table and return it."""
    records = load_records(options.folder)
    measured = read_json(options.costs)["rows"] if options.costs else {}
    costs = {name: one["of_simcse"] for name, one in measured.items()}
    table = survival_table(records, costs).markdown()
    if options.output:
        write_text(options.output, table)
    return table


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="records of the experiment")
    parser.add_argument("--costs", type=Path, help="file of benchmarks/objectives.py")
    parser.add_argument("--output", type=Path, help="file for the table")
    print(run_with_options(parser, write))


if __name__ == "__main__":
    main()
