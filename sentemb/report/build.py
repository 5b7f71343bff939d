"""Reports from folders of records: their sections, and tables inside a document of the user's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sentemb._files import write_text
from sentemb.errors import InputError
from sentemb.evaluation.record import has_records, load_records
from sentemb.evaluation.schema import check_once
from sentemb.evaluation.suites import GEOMETRY, LAYERS, MULTILINGUAL, RETRIEVAL, STS, TRANSFER
from sentemb.report.analysis import geometry_section, layers_section, training_section
from sentemb.report.comparisons import compare_with_baselines, comparison_sections
from sentemb.report.page import Section
from sentemb.report.results import summary_tables, tables_of
from sentemb.report.table import read_labels

_HEADINGS = {
    STS.name: "Semantic textual similarity",
    MULTILINGUAL.name: "Other languages",
    TRANSFER.name: "Transfer tasks",
    RETRIEVAL.name: "Retrieval",
}
_BEGIN = re.compile(r"^<!-- report:(?P<name>[a-z]+) -->$", re.MULTILINE)
# From a mark to its end, without another mark between them.
_PART = re.compile(
    r"^(?P<begin><!-- report:(?P<name>[a-z]+) -->\n)(?:(?!<!-- report:).)*?"
    r"^(?P<end><!-- /report:(?P=name) -->)$",
    re.MULTILINE | re.DOTALL,
)


class Report(NamedTuple):
    """Contents of a report."""

    sections: tuple[Section, ...]
    verdicts: tuple[str, ...]  # the sentences at the beginning, if there is a baseline


def build_report(
    folders: Sequence[Path],
    *,
    runs: Sequence[Path] = (),
    protocol: str = STS.protocol,
    baselines: Sequence[str] = (),
    figures: bool = False,
    cache: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Read all records of some folders and make the sections of a report.

    `labels.toml` in a folder names its models. `runs` are folders of training runs, for learning curves.
    `progress` is called during comparisons with the baseline, the number of finished data sets, and of all.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"no such folder: {folder}", "list a folder that contains records")
    labels = {name: label for folder in folders for name, label in read_labels(folder).items()}
    full = [folder for folder in folders if has_records(folder)]
    records = load_records(full) if full else []
    check_once([(one.model, f", suite {one.suite}, {one.protocol}", one.seed) for one in records])
    compared = []
    if baselines:
        compared = compare_with_baselines(records, baselines, labels, cache=cache, progress=progress)
    differences, details = comparison_sections(compared, figures=figures)
    names = (*_HEADINGS, GEOMETRY.name, LAYERS.name)
    suites = {name: [one for one in records if one.suite == name] for name in names}
    sections = [
        differences,
        Section("summary", "Averages", tables=summary_tables(suites[STS.name], labels)),
        *(
            Section(name, heading, tables=tuple(tables_of(suites[name], labels, protocol=protocol)))
            for name, heading in _HEADINGS.items()
        ),
        details,
        geometry_section(suites[GEOMETRY.name], runs, labels, figures=figures),
        layers_section(suites[LAYERS.name], figures=figures),
        training_section(runs if figures else ()),
    ]
    sections = [one for one in sections if one.tables or one.charts]
    if not sections:
        raise InputError(
            f"{', '.join(map(str, folders))}: no record found",
            "create one with sentemb eval sts MODEL --output FOLDER",
        )
    return Report(tuple(sections), tuple(one.verdict() for one in compared))


def put_into(paths: Sequence[Path], texts: Mapping[str, str]) -> dict[Path, list[str]]:
    """Replace the text between `<!-- report:NAME -->` and `<!-- /report:NAME -->` in all files or in none.

    Return the names of the places in each file.
    """
    read = {path: read_marked(path) for path in paths}
    for path, (_, names) in read.items():
        for name in [name for name in names if name not in texts]:
            raise InputError(
                f"{path} contains a mark for {name}, but there are no records for it",
                f"remove the mark, or list more folders; the records provide {', '.join(texts) or 'none'}",
            )
    for path, (text, _) in read.items():
        filled = _PART.sub(
            lambda part: f"{part['begin']}\n{texts[part['name']].strip()}\n\n{part['end']}", text
        )
        write_text(path, filled)
    return {path: names for path, (_, names) in read.items()}


def read_marked(path: Path) -> tuple[str, list[str]]:
    """Read a file and the names of its places for tables."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not valid UTF-8") from None
    except OSError as error:
        problem = f"no such file: {path}" if not path.exists() else f"{path}: {error.strerror}"
        raise InputError(problem, "use a Markdown file that contains report marks") from None
    names = [mark["name"] for mark in _BEGIN.finditer(text)]
    if not names:
        hint = "write <!-- report:sts --> and <!-- /report:sts --> on separate lines"
        raise InputError(f"{path} does not contain a mark for a table", hint)
    if len(_PART.findall(text)) < len(names):
        hint = "write <!-- /report:NAME --> on a line below each"
        raise InputError(f"{path}: a <!-- report:NAME --> is not closed", hint)
    return text, names
