from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentemb.data.catalogue import entries, get
from tests.cli.conftest import Command
from tests.data.loopback_hub import LoopbackHub

RUN = "import sys; from sentemb.cli.main import run; run(sys.argv[1:])"


def process(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    variables = {key: value for key, value in os.environ.items() if key != "SENTEMB_DATA"}
    return subprocess.run(
        [sys.executable, "-c", RUN, "data", *arguments],
        env=variables | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def hub() -> Iterator[Any]:
    """The loopback hub of the data room's tests."""
    with LoopbackHub() as server:
        yield server


def test_list_shows_every_set_and_where_it_is(shared_data: Path, sentemb: Command) -> None:
    code, out, _ = sentemb("data", "list", "--data-dir", str(shared_data))
    assert code == 0
    for entry in entries():
        assert entry.name in out
    line = next(line for line in out.splitlines() if line.startswith("| stsb "))
    assert "5,749 / 1,500 / 1,379" in line
    assert "senteval/downstream" in line


def test_verify_counts_real_data(shared_data: Path, sentemb: Command) -> None:
    code, out, _ = sentemb(
        "data", "verify", "sts16", "sickr", "stsb-sentences", "--data-dir", str(shared_data)
    )
    assert code == 0
    assert out.splitlines() == [
        "sts16 test: 1,186 rows",
        "sickr train: 4,500 rows",
        "sickr dev: 500 rows",
        "sickr test: 4,927 rows",
        "stsb-sentences train: 17,256 rows",
    ]


def test_verify_names_what_differs(tmp_path: Path, shared_data: Path, sentemb: Command) -> None:
    folder = tmp_path / "STS" / "STSBenchmark"
    folder.mkdir(parents=True)
    for split, lost in {"train": 0, "dev": 3, "test": 0}.items():
        name = f"sts-{split}.csv"
        real = (shared_data / "senteval/downstream/STS/STSBenchmark" / name).read_bytes().split(b"\n")
        (folder / name).write_bytes(b"\n".join(real[: len(real) - 1 - lost]) + b"\n")
    code, out, err = sentemb("data", "verify", "--data-dir", str(tmp_path))
    assert code == 2
    assert "has 1,497 rows instead of 1,500: 3 missing" in out
    assert "has 17,250 rows instead of 17,256: 6 missing" in out  # the sentences made from it
    assert "stsb test: 1,379 rows" in out
    assert "stsb, stsb-sentences" in err
    assert len(err.splitlines()) == 1


def pairs(rows: int) -> bytes:
    lines = [json.dumps({"sentence1": f"a {n}", "sentence2": "b", "score": 1.0}) for n in range(rows)]
    return gzip.compress("\n".join(lines).encode())


def test_fetch_puts_sets_where_the_readers_find_them(hub: Any, tmp_path: Path, shared_data: Path) -> None:
    data = tmp_path / "data"
    cache = tmp_path / "cache"
    hub.add("datasets", "mteb/sts13-sts", {"test.jsonl.gz": pairs(1500)}, commit=get("sts13").revision)
    hub.add("datasets", "mteb/sts14-sts", {"test.jsonl.gz": pairs(3700)}, commit=get("sts14").revision)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        file.add(shared_data / "senteval" / "downstream" / "SICK", "SICK")
    simcse = {"senteval.tar": archive.getvalue(), "wiki1m_for_simcse.txt": b"one\ntwo\n"}
    hub.add("datasets", "princeton-nlp/datasets-for-simcse", simcse, commit=get("sickr").revision)
    environment = hub.environment(cache) | {"SENTEMB_DATA": str(data)}

    done = process("fetch", "sts13", "sickr", "simcse-wiki", environment=environment)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in data.iterdir()) == ["senteval", "simcse-wiki", "sts13"]
    assert sorted(path.name for path in (data / "sts13").iterdir()) == ["test.jsonl.gz"]
    assert "senteval/downstream" in done.stdout
    assert done.stderr.endswith(f"next: sentemb data verify sts13 sickr simcse-wiki --data-dir {data}\n")

    refused = process("fetch", "sts14", environment=environment)
    assert refused.returncode == 2
    assert "has 3,700 rows instead of 3,750: 50 missing" in refused.stderr
    assert not (data / "sts14").exists()
    assert len(list(data.iterdir())) == 3  # nothing half-fetched stays

    before = len(hub.requests)
    again = process("fetch", "sts13", environment=environment)
    assert (again.returncode, len(hub.requests)) == (0, before)

    verified = process("verify", environment=environment)
    assert verified.returncode == 0, verified.stderr
    assert "sts13 test: 1,500 rows" in verified.stdout
    assert "sickr-mteb test: 9,927 rows" in verified.stdout
    assert "simcse-wiki train: 2 rows (the catalogue does not state a count)" in verified.stdout
