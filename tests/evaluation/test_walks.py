"""Numbers of files that a call runs through: what a maintainer opens to follow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.data.sts import read_scored_pairs
from sentemb.encoding import load_encoder
from sentemb.evaluation import evaluate_pairs, load_predictions, load_records, write_record
from sentemb.report.results import tables_of
from tests.evaluation.conftest import lengths
from tests.search.test_walks import files_of


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    rows = [f"a cat {'a' * n},a dog {'e' * (n % 5)},{n}" for n in range(12)]
    path.write_text("\n".join(["sentence1,sentence2,score", *rows]))
    return path


def rooms(call: Callable[[], object]) -> Counter[str]:
    """Count the files by room."""
    return Counter(name.split("/")[1] for name in files_of(call))


def test_a_model_name_to_a_record(pairs_file: Path, tmp_path: Path) -> None:
    pairs = read_scored_pairs(pairs_file)
    encoder = load_encoder("static-mini")
    found = files_of(lambda: evaluate_pairs(encoder, [pairs], folder=tmp_path / "records"))
    own = {name for name in found if name.startswith("/evaluation/")}
    assert len(own) <= 6, sorted(own)
    everything = rooms(lambda: evaluate_pairs("static-mini", [pairs]))
    assert everything["evaluation"] <= 5


def test_a_record_to_a_table(pairs_file: Path, tmp_path: Path) -> None:
    record = evaluate_pairs(lengths, [read_scored_pairs(pairs_file)])
    write_record(record, *load_predictions(record), tmp_path / "records")
    found = files_of(lambda: [*tables_of(load_records(tmp_path / "records"))])
    assert len(found - {"/_files.py", "/limits.py"}) <= 6, sorted(found)
