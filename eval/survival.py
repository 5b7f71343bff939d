"""The survival experiment in a row per objective, from its records.

    python eval/survival.py eval/results/survival-tuned --costs benchmarks/results/objectives.json \
        --output eval/results/survival-tuned/table.md --into README.md

The folder is the output of `sentemb experiment survival`, and `--costs` that of `benchmarks/objectives.py`.
`--into` puts the rows of the first dev set between `<!-- survival -->` and `<!-- /survival -->`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sentemb._files import read_json, write_text
from sentemb.errors import InputError
from sentemb.evaluation.record import load_records
from sentemb.evaluation.schema import Record
from sentemb.experiments import load_experiment
from sentemb.experiments.comparisons import headlines, rank_table
from sentemb.experiments.tables import Key, Summary, Verdict, summarize, verdicts_of
from sentemb.report.table import ABSENT, Table, mean_cell
from sentemb.training.outcome import run_with_options

BEGIN, END = "<!-- survival -->", "<!-- /survival -->"


def survival_table(
    records: Sequence[Record], costs: Mapping[str, float], values: Sequence[float | str]
) -> Table:
    """Return average, rank and verdicts of each objective at some dev sets, the best first."""
    experiment = load_experiment("survival")
    summaries = headlines(summarize(records))
    ranked = rank_table(summaries)
    ranks = {row[0]: dict(zip(ranked.header, row, strict=True)) for row in ranked.rows} if ranked else {}
    verdicts = [verdicts_of(summaries, name) for name in experiment.baselines]
    rows = []
    for value in values:
        own = [one for one in summaries if one.setting.value == value]
        for one in sorted(own, key=lambda one: -one.mean):
            place = ranks.get(one.label, {}).get(f"{one.data} at {value}", ABSENT)
            cost = f"{costs[one.label]:.2f}" if one.label in costs else ABSENT
            cells = [mean_cell(one.scores, 1, scale=one.factor), place]
            cells += [_difference(one, found) for found in verdicts]
            rows.append((one.label, *([str(value)] if len(values) > 1 else []), *cells, cost))
    compared = [f"compared with {name}" for name in experiment.baselines]
    header = ("objective", *(["dev"] if len(values) > 1 else []), "average", "rank", *compared, "time")
    return Table("", header, tuple(rows))


def _difference(one: Summary, verdicts: Mapping[Key, Verdict]) -> str:
    """Return the difference of averages over common seeds, with its arrow."""
    verdict = verdicts.get(one.key)
    if verdict is None or verdict.difference is None:
        return ABSENT
    return f"{verdict.difference.size:+.1f}{verdict.marker}"


def write(options: argparse.Namespace) -> str:
    """Write the table of all dev sets and put that of the first into a file; return the former."""
    records = load_records(options.folder)
    measured = read_json(options.costs)["rows"] if options.costs else {}
    costs = {name: one["of_simcse"] for name, one in measured.items()}
    values = load_experiment("survival").values
    table = survival_table(records, costs, values).markdown()
    if options.output:
        write_text(options.output, table)
    if options.into:
        text = options.into.read_text(encoding="utf-8")
        if BEGIN not in text or END not in text:
            raise InputError(f"{options.into} has no place for the table", f"write {BEGIN} and {END}")
        first = survival_table(records, costs, values[:1]).markdown()
        part = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
        write_text(options.into, part.sub(lambda _: f"{BEGIN}\n\n{first}\n{END}", text))
    return table


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="records of the experiment")
    parser.add_argument("--costs", type=Path, help="file of benchmarks/objectives.py")
    parser.add_argument("--output", type=Path, help="file for the table")
    parser.add_argument("--into", type=Path, help="file with a place for the rows of the first dev set")
    print(run_with_options(parser, write))


if __name__ == "__main__":
    main()
