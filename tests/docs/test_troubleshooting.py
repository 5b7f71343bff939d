"""docs/guides/troubleshooting.md: its headings are what commands print."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.conftest import build_tiny_bert
from tests.docs.inputs import INPUTS
from tests.docs.test_guides import DOCS
from tests.printed import Step

HEADINGS = re.findall(r"^### (.+)$", (DOCS / "guides/troubleshooting.md").read_text("utf-8"), re.MULTILINE)
COMMANDS: tuple[str | None, ...] = (
    "eval sts bert-base-uncased --sets pairs.csv",
    None,
    "eval sts MODEL --sets pairs.csv",
    "eval sts own-code --sets pairs.csv",
    "eval sts static-mini --sets pairs.csv --device cuda:0",
    "encode docs.jsonl --model raw --output vectors",
    "index build docs.csv --output new",
    "index build broken/docs.jsonl --output new",
    "index build docs.txt --output new",
    "index build twice/docs.jsonl --output new",
    "eval sts static-mini --data-dir data",
    "index build data.csv --text-column txt --output new",
    "index build docs.jsonl --output index",
    "index search none/index kitten",
    "index search index kitten --model sg-bert-mini",
    "index fit index --queries queries.jsonl --qrels unknown/qrels.tsv",
    "index fit index --queries queries.jsonl --qrels absent/qrels.tsv",
    "index search index kitten --mode keyword --min-score 50%",
    None,
    "train pairs --data few.jsonl --base static-mini --output new",
    "adapt fifty.jsonl --output new",
    None,
    "train ce --train one-label.csv --base raw --output new",
)
"""What prints each heading in its turn; None for a symptom, and what needs the hub or a finished training."""


def _write(folder: Path) -> None:
    for name, kind in {
        "docs.csv": "a table with two columns",
        "docs.jsonl": "documents",
        "index": "an index of documents",
        "pairs.csv": "graded pairs",
        "queries.jsonl": "queries of the documents",
    }.items():
        INPUTS[kind](folder / name)
    files: dict[str, str | bytes] = {
        "absent/qrels.tsv": "query-id\tcorpus-id\tscore\nq1\tdoc-7\t1\n",
        "broken/docs.jsonl": '{"text": "a cat sat"}\n{"id": 1, "text":}\n',
        "data.csv": "text,label\na cat sat,1\n",
        "docs.txt": "cafés".encode("latin-1"),
        "few.jsonl": "".join(
            json.dumps({"question": f"what is {n}", "answer": f"a {n}"}) + "\n" for n in range(2)
        ),
        "fifty.jsonl": "".join(json.dumps({"text": f"document number {n}"}) + "\n" for n in range(50)),
        "one-label.csv": "text,label\na cat sat,1\nbirds fly,1\n",
        "twice/docs.jsonl": '{"id": 1, "text": "a cat sat"}\n{"id": 1, "text": "birds fly"}\n',
        "unknown/qrels.tsv": "query-id\tcorpus-id\tscore\nq99\tpy-1\t1\n",
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in ("MODEL", "own-code", "raw"):
        build_tiny_bert(folder / name)
    (folder / "MODEL" / "model.safetensors").rename(folder / "MODEL" / "pytorch_model.bin")
    config = json.loads((folder / "own-code" / "config.json").read_text())
    config |= {"auto_map": {"AutoModel": "modeling.Model"}, "model_type": "unheard-of"}
    (folder / "own-code" / "config.json").write_text(json.dumps(config))


def test_headings_are_what_commands_print(
    tmp_path: Path, sentemb: Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SENTEMB_DATA", raising=False)
    _write(tmp_path)
    missing = []
    for heading, command in zip(HEADINGS, COMMANDS, strict=True):
        if command is not None:
            printed = "".join(sentemb(*shlex.split(command))[1:]) + caplog.text
            printed = re.sub(r"(none|twice)/", "", printed)  # folders of files whose names are taken
            parts = [Step("", output=(part,)) for part in re.split("MODEL|FOLDER|…", heading)]
            missing += [(heading, printed) for part in parts if part.missing(printed)]
    assert not missing, "\n\n".join(map(repr, missing))
