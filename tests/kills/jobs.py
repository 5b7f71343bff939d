"""Commands that a kill may interrupt, each with what it reads and what of its result must be the same."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.training.training_helpers import make_sentences


@dataclass(frozen=True)
class Job:
    """One command; `{in}` and `{out}` stand for its inputs and for the folder it may write to."""

    arguments: str
    same: tuple[str, ...]
    again: str = ""

    def command(self, inputs: Path, output: Path) -> list[str]:
        words = f"{self.arguments} {self.again}".split()
        return [word.replace("{in}", str(inputs)).replace("{out}", str(output)) for word in words]

    def content(self, output: Path) -> dict[str, Any]:
        """Every name that is there, and the bytes of what must be the same."""
        same = {path for pattern in self.same for path in output.rglob(pattern) if path.is_file()}
        return {
            # Each index has a database of its own.
            re.sub(r"index-[0-9a-f]{16}", "index", str(path.relative_to(output))): _digest(path)
            if path in same
            else None
            for path in sorted(output.rglob("*"))
            if path.is_file()
        }


def _digest(path: Path) -> str:
    if path.suffix == ".sqlite":
        return _rows(path)
    content = path.read_bytes()
    if path.suffix == ".json":
        values = json.loads(content)
        if isinstance(values, dict):  # when and how long is not part of a result
            values = {key: value for key, value in values.items() if key != "environment"}
        content = json.dumps(values).encode()
    return hashlib.sha256(content).hexdigest()


def _rows(path: Path) -> str:
    """A digest of the documents, chunks and vectors of an index."""
    digest = hashlib.sha256()
    with contextlib.closing(sqlite3.connect(path)) as database:
        for table in ("documents", "chunks", "vectors", "state"):
            for row in database.execute(f"SELECT * FROM {table}"):
                digest.update(repr(row).encode())
    return digest.hexdigest()


_SMALL = "--base {in}/bert --batch-size 8 --max-length 16 --output {out}/run"
JOBS = {
    "contrastive": Job(
        f"train sg-opt {_SMALL} --data {{in}}/sentences.txt --dev {{in}}/dev.tsv --eval-steps 1 "
        "--set epochs=2 --set loss_options.projection_width=8 --set use_last=true --set stopping=none",
        ("*.safetensors", "modules.json"),
        "--resume",
    ),
    "classifier": Job(
        f"train supcl-seq {_SMALL} --train {{in}}/labelled.csv --validation {{in}}/labelled.csv "
        "--set epochs=3",
        ("*.safetensors",),
        "--resume",
    ),
    "masked-language": Job(
        "train mlm --base {in}/bert --batch-size 4 --output {out}/run --corpus {in}/corpus.txt --length 16 "
        "--max-steps 12 --set save_minutes=0.002 --set validation_share=0.1",
        ("*.safetensors",),
        "--resume",
    ),
    "index": Job(
        "index build {in}/corpus.txt -m {in}/bert --pooling mean -o {out}/index",
        ("index-*.sqlite", "vectors*"),
    ),
    "index again": Job(
        "index build {in}/corpus.txt -m {in}/bert --pooling mean -o {out}/index",
        ("index-*.sqlite", "vectors*"),
        "--overwrite",
    ),
    "records": Job(
        "eval sts {in}/bert --pooling mean --sets {in}/dev.tsv,{in}/more.tsv -o {out}/records --overwrite",
        ("*.json", "*.safetensors"),
    ),
    "report": Job(
        "report {in}/records -o {out}/page.html --baseline bert-cls --cache-dir {out}/cache", ("page.html",)
    ),
}


def make_inputs(folder: Path, build: Callable[[Path], object], run: Callable[[list[str]], None]) -> None:
    """Everything that the jobs read."""
    folder.mkdir()
    build(folder / "bert")
    (folder / "sentences.txt").write_text("\n".join(make_sentences(40)) + "\n")
    (folder / "corpus.txt").write_text("\n".join(make_sentences(400, seed=4)) + "\n")
    for name, seed in (("dev", 1), ("more", 3)):
        pairs = zip(make_sentences(30, seed=seed), make_sentences(30, seed=seed + 1), strict=True)
        rows = [f"{first}\t{second}\t{number % 6}" for number, (first, second) in enumerate(pairs)]
        (folder / f"{name}.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
    rows = [f"{text},{number % 2}" for number, text in enumerate(make_sentences(32, seed=5))]
    (folder / "labelled.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    sets = f"{folder}/dev.tsv,{folder}/more.tsv"
    for pooling in ("cls", "mean"):
        run(f"eval sts {folder}/bert --pooling {pooling} --sets {sets} -o {folder}/records".split())
