"""The tables of SG-BERT from result records, next to the paper's figures.

    python eval/paper_tables.py eval/results --output eval/results

The records of tables 1, 4, 7 and 11 are in the folder itself, whose `labels.toml` names the models. Those of
tables 2 and 3 are in `zero-shot/`, those of 6 in `efficiency/`; the program of each table makes them. The
rows of table 5 are in the folder, or in `ablations/` if table 1 should not show them. A table or row without
a record is listed with the command that makes it. The output folder gets `sg-bert-tables.md` and
`sg-bert-tables.tex`.

The paper's encoders are larger than two cores can train, so its figures are next to those of a base of the
same kind: BERT-base next to an encoder pretrained on plain text, SBERT-base next to one trained on sentence
pairs. Compare the order of the methods, not the figures. Tables 8 and 9 are settings: `sentemb train sg-opt
--explain` and the preset sg-bert of `eval/senteval.py`. Table 10 is `eval/classification.py --data
rule=sg-bert`, which makes its own tables.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from efficiency import REFERENCE, Times, efficiency_table

from sentemb._files import read_json, write_text
from sentemb.errors import InputError
from sentemb.evaluation.record import load_records
from sentemb.evaluation.suites import MULTILINGUAL, STS
from sentemb.experiments import load_experiment
from sentemb.report import sts_table, transfer_table
from sentemb.report.page import Section, latex_report, markdown_report
from sentemb.report.table import ABSENT, Table, label_table, mark_best, read_labels
from sentemb.training.outcome import run_with_options

FIGURES = Path(__file__).with_name("sg_bert_published.toml")
BESIDE = {
    "bert-mini": "BERT-base",
    "bert-base-uncased": "BERT-base",
    "bert-large-uncased": "BERT-large",
    "all-MiniLM-L6-v2": "SBERT-base",
    "roberta-base": "RoBERTa-base",
    "roberta-large": "RoBERTa-large",
}
ABLATIONS = {one.name: one for one in load_experiment("ablations").chosen}
PAPER = "in the paper"  # ends the names of its bases
ENSEMBLE = ("BT", "SG-OPT", "BT + SG-OPT")  # table 7
DATA = "--data-dir data --output eval/results"
COMMANDS = {
    "raw": f"python eval/frozen.py POOLING --base BASE {DATA}",
    "flow": f"python eval/frozen.py flow --base BASE {DATA}",
    "SG": f"python eval/ablations.py sg --base BASE {DATA}",
    "SG-OPT": f"python eval/ablations.py sg-opt --base BASE {DATA}",
    "BT": f"python training/back_translation.py --base BASE, then python eval/sts.py MODEL {DATA}",
    "BT + SG-OPT": "python training/back_translation.py --objective bt-sg-opt --base BASE, then python "
    f"eval/sts.py MODEL {DATA}",
}
TRANSFER = f"python eval/senteval.py MODEL --preset sg-bert {DATA}"


class PaperTable(NamedTuple):
    """A table of the paper: its heading, the function that makes it, and the command for its records."""

    heading: str
    make: Callable[[Path], Table | None]
    command: str


def published(part: str) -> dict[str, list[list[str]]]:
    """Return what the paper reports: its columns, and the rows of every base."""
    with FIGURES.open("rb") as file:
        found: dict[str, list[list[str]]] = tomllib.load(file)[part]
    return found


def rows_of(table: Table, columns: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return base and row (method, pooling, seeds, scores in the order of the columns) of a labeled table."""
    # "SICK-R 4,927" says how many pairs it has.
    places = {name.partition(" ")[0]: place for place, name in enumerate(table.header)}
    if not table.groups:
        raise InputError(
            f"{table.title}: the models do not have labels", "write labels.toml next to the records"
        )
    rows = []
    for base, row in zip(table.groups, table.rows, strict=True):
        scores = tuple(row[places[name]] if name in places else ABSENT for name in columns)
        rows.append((base, (*row[:3], *scores)))
    return rows


def beside(
    ours: Table,
    part: str,
    *,
    wanted: Callable[[str, str], bool] = lambda base, method: True,
    twin: Callable[[str], str | None] = BESIDE.get,
    commands: Mapping[str, str] = COMMANDS,
) -> Table | None:
    """Return our rows, each base before the paper's rows of its twin; None if no row of ours is selected."""
    figures = published(part)
    columns = figures.pop("columns")
    found = [one for one in rows_of(ours, columns) if wanted(one[0], one[1][0])]
    rows, missing = [], []
    for base in dict.fromkeys(base for base, _ in found):
        own = [one for one in found if one[0] == base]
        paper = [row for row in figures.get(twin(base) or "", []) if wanted(base, row[0])]
        made = {row[:2] for _, row in own}
        missing += [
            f"{method} ({pooling}) from {base} is not measured yet; to measure it, run "
            + commands[method].replace("BASE", base).replace("POOLING", pooling)
            for method, pooling, *_ in paper
            if (method, pooling) not in made
        ]
        rows += own
        for method, pooling, *scores in paper:
            seeds = "8" if any("±" in score for score in scores) else ABSENT
            rows.append((f"{twin(base)} {PAPER}", (method, pooling, seeds, *scores)))
    if not found:
        return None
    table = Table(
        title=ours.title,
        header=("method", "pooling", "seeds", *columns),
        rows=tuple(row for _, row in rows),
        names=2,
        groups=tuple(base for base, _ in rows),
    )
    marked = mark_best(table)
    # The best of encoders of different sizes says nothing.
    return replace(marked, top=frozenset(), notes=(*marked.notes, *missing))


def sts(folder: Path, wanted: Callable[[str, str], bool]) -> Table | None:
    """Make tables 1, 7 and 11."""
    if not any(folder.glob(f"*.{STS.name}.*.json")):
        return None
    ours = mark_best(label_table(sts_table(load_records(folder, suite=STS.name)), read_labels(folder)))
    return beside(ours, "sts", wanted=wanted)


def ensemble(folder: Path) -> Table | None:
    """Make table 7, which needs models trained on back-translations."""
    table = sts(folder, lambda base, method: method in ENSEMBLE)
    if table is None:
        return None
    ours = [row[0] for base, row in zip(table.groups, table.rows, strict=True) if not base.endswith(PAPER)]
    return table if {"BT", "BT + SG-OPT"} & {*ours} else None


def languages(folder: Path) -> Table | None:
    """Make tables 2 and 3 as one."""
    place = folder / "zero-shot"
    if not any(place.glob(f"*.{MULTILINGUAL.name}.*.json")):
        return None
    records = load_records(place, suite=MULTILINGUAL.name)
    ours = mark_best(label_table(sts_table(records), read_labels(place)))
    commands = dict.fromkeys(COMMANDS, "see python eval/zero_shot.py --help")
    return beside(ours, "languages", twin=lambda base: "MBERT", commands=commands)


def senteval(folder: Path) -> Table | None:
    """Make table 4."""
    if not any(folder.glob("*.transfer.sg-bert.*.json")):
        return None
    records = load_records(folder, suite="transfer")
    ours = mark_best(label_table(transfer_table(records, "sg-bert"), read_labels(folder)))
    return beside(ours, "senteval", commands=dict.fromkeys(COMMANDS, TRANSFER))


def ablations(folder: Path) -> Table | None:
    """Make table 5: averages and the cost of each change of SG-OPT, here and in the paper."""
    places = [one for one in (folder, folder / "ablations") if any(one.glob(f"*.{STS.name}.*.json"))]
    found: dict[str, dict[str, tuple[str, ...]]] = {}  # by base, then by variant
    for made in (sts_table(load_records(place, suite=STS.name)) for place in places):
        for row in made.rows:
            if (variant := variant_of(row[0])) is None:
                continue
            if made.header[-1] != "average":
                raise InputError(
                    f"{folder}: {row[0]} is not evaluated on all seven sets", "evaluate it on the others"
                )
            found.setdefault(row[0].removesuffix(f"-{variant}"), {})[variant] = row
    rows = [row for ours in found.values() for row in variants(ours)]
    if not rows:
        return None
    return Table(
        title="Variants of SG-OPT, average of the seven STS sets, Spearman x 100",
        header=("variant", "seeds", "average", "change", "average, paper", "change, paper"),
        rows=tuple(rows),
        notes=("change: of the average against the first row", "± is the standard deviation over seeds"),
        groups=tuple(base for base in found for _ in ABLATIONS),
    )


def variants(ours: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows of table 5 from one base."""
    unmade = (ABSENT,) * 3
    full, published = ours.get("sg-opt", unmade)[-1], ABLATIONS["sg-opt"].published
    rows = []
    for name, one in ABLATIONS.items():
        _, seeds, *_, average = ours.get(name, unmade)
        change, paper = less(average, full), less(one.published, published)
        rows.append((name, seeds, average, change, one.published, paper))
    return rows


def variant_of(method: str) -> str | None:
    """Return the row of a method whose name is `BASE-ROW`."""
    found = [name for name in ABLATIONS if method.endswith(f"-{name}")]
    return max(found, key=len, default=None)


def less(value: str, full: str) -> str:
    """Return the difference of two formatted scores."""
    if ABSENT in (value, full) or value == full:
        return ABSENT
    return f"{float(value.split()[0]) - float(full.split()[0]):+.2f}"


def efficiency(folder: Path) -> Table | None:
    """Make table 6."""
    path = folder / "efficiency" / "efficiency.json"
    if not path.exists():
        return None
    record = read_json(path)
    try:
        times = {method: Times(**seconds) for method, seconds in record["seconds"].items()}
        title = f"Seconds from {record['base']}, {record['sentences']:,} sentences and STS-B test"
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not a record of eval/efficiency.py: {error}", "run eval/efficiency.py again"
        ) from error
    if REFERENCE not in times:
        raise InputError(f"{path}: the reference method {REFERENCE} was not measured", "measure it too")
    return efficiency_table(times, title=title)


def is_roberta(base: str) -> bool:
    """Return whether a base belongs to table 11."""
    return "roberta" in base.lower()


TABLES = (
    PaperTable(
        "Table 1: STS",
        lambda folder: sts(folder, lambda base, method: not is_roberta(base) and method != "BT + SG-OPT"),
        f"python eval/frozen.py --base bert-mini {DATA}",
    ),
    PaperTable(
        "Tables 2 and 3: other languages",
        languages,
        "python eval/zero_shot.py --data-dir data --output eval/results/zero-shot",
    ),
    PaperTable("Table 4: SentEval", senteval, TRANSFER),
    PaperTable(
        "Table 5: ablations",
        ablations,
        f"python eval/ablations.py --base bert-mini {DATA}",
    ),
    PaperTable(
        "Table 6: efficiency",
        efficiency,
        "python eval/efficiency.py --base bert-mini --data-dir data --output eval/results/efficiency",
    ),
    PaperTable("Table 7: back-translation and SG-OPT", ensemble, COMMANDS["BT + SG-OPT"]),
    PaperTable(
        "Table 11: RoBERTa",
        lambda folder: sts(folder, lambda base, method: is_roberta(base) and method != "BT + SG-OPT"),
        f"python eval/frozen.py --base roberta-base {DATA}",
    ),
)


def make(options: argparse.Namespace) -> str:
    """Make all tables, write both files and return the markdown."""
    if not options.folder.is_dir():
        raise InputError(f"no such folder: {options.folder}", "name the folder that holds the records")
    sections = []
    for number, one in enumerate(TABLES):
        table = one.make(options.folder)
        if table is None:
            sentence = f"{one.heading}: not measured yet; to measure it, run {one.command}"
            sections.append(Section(f"table{number}", one.heading, sentences=(sentence,)))
        else:
            # LaTeX numbers captions itself, so the paper's number is not part of it.
            number_there = one.heading.partition(":")[0].lower()
            titled = replace(table, title=f"{table.title} (SG-BERT, {number_there})")
            sections.append(Section(f"table{number}", one.heading, tables=(titled,)))
    text = markdown_report("The tables of SG-BERT, and ours", sections)
    write_text(options.output / "sg-bert-tables.md", text)
    write_text(options.output / "sg-bert-tables.tex", latex_report(sections))
    return text


def main() -> None:
    """Read the command line, make the tables and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of records")
    parser.add_argument("--output", type=Path, required=True, help="folder for both files")
    print(run_with_options(parser, make))


if __name__ == "__main__":
    main()
