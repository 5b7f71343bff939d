"""Valid files and folders of every kind that the commands read, small enough to be read often."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests import processes
from tests.conftest import build_tiny_bert
from tests.records import write_senteval
from tests.training.training_helpers import make_sentences

# What every training of the harness has in common: it is over after two steps.
TRAIN = "--base {g}/bert --batch-size 4 --max-length 16 --max-steps 2 -o out"
TRANSFER = "eval transfer {g}/bert --pooling mean --tasks mr,trec --allow-count-mismatch"
_TEXTS = make_sentences(16, seed=2)
_ROWS = [{"id": f"d{number}", "text": text, "year": 2000 + number} for number, text in enumerate(_TEXTS)]
_PAIRS = [
    {"sentence1": first, "sentence2": second, "score": number % 4 + 2}
    for number, (first, second) in enumerate(zip(_TEXTS, make_sentences(16, seed=7), strict=True))
]
_LABELLED = [{"text": text, "label": ["good", "bad"][number % 2]} for number, text in enumerate(_TEXTS)]
_PARAPHRASES = [
    {"sentence1": first, "sentence2": f"{first} {second}", "label": number % 2}
    for number, (first, second) in enumerate(zip(_TEXTS, make_sentences(16, seed=3), strict=True))
]
_INFERENCES = [
    {"premise": text, "hypothesis": other, "label": label}
    for text, others in zip(
        _TEXTS[:6], zip(*[iter(make_sentences(18, seed=4))] * 3, strict=True), strict=True
    )
    for label, other in zip(("entailment", "neutral", "contradiction"), others, strict=True)
]
_RECIPE = """epochs = 1
batch_size = 4
learning_rate = 1e-3
max_length = 16
warmup = 0.1
betas = [0.9, 0.99]
pooling = "mean"
stopping = "none"

[loss_options]
temperature = 0.05
projection_width = 8
"""
_EXPERIMENT = """title = "Two temperatures"
kind = "sts"
seeds = [1]
baseline = "simcse"

[methods.simcse]

[methods.hot]
recipe = "simcse"
loss_options.temperature = 0.5
"""


def _separated(rows: list[dict[str, object]], delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _json_lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _parquet(rows: list[dict[str, object]]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


_LINES = "".join(f"{text}\n" for text in _TEXTS).encode()
_RUN = "".join(f"q{n % 3} Q0 d{n} {n + 1} {9 - n / 4} mine\n" for n in range(12)).encode()
_BUILD = "index build {f} -m {g}/bert --pooling mean -o out"
_SETS = "eval sts {g}/bert --pooling mean --sets {f} -o out"
_TRAIN_CLASSES = f"train ce {TRAIN} --train {{f}} --validation {{g}}/labelled.csv"
READERS: dict[str, tuple[bytes, str]] = {
    "sentences.txt": (_LINES, f"train simcse {TRAIN} --data {{f}} --dev none"),
    "texts.txt": (_LINES, "data overlap {f} --sets {g}/pairs.tsv"),
    "documents.txt": (_LINES, _BUILD),
    "documents.txt.gz": (gzip.compress(_LINES, mtime=0), _BUILD),
    "documents.csv": (_separated(_ROWS, ","), f"{_BUILD} --text-column text --id-column id"),
    "documents.tsv": (_separated(_ROWS, "\t"), f"{_BUILD} --text-column text"),
    "documents.jsonl": (_json_lines(_ROWS), f"{_BUILD} --text-column text --id-column id"),
    "documents.parquet": (_parquet(_ROWS), f"{_BUILD} --text-column text --id-column id"),
    "pairs.tsv": (_separated(_PAIRS, "\t"), _SETS),
    "pairs.csv": (_separated(_PAIRS, ","), _SETS),
    "pairs.jsonl": (_json_lines(_PAIRS), _SETS),
    "dev.tsv": (
        _separated(_PAIRS, "\t"),
        f"train simcse {TRAIN} --data {{g}}/sentences.txt --dev {{f}} --eval-steps 1",
    ),
    "labelled.csv": (_separated(_LABELLED, ","), _TRAIN_CLASSES),
    "labelled.jsonl": (_json_lines(_LABELLED), _TRAIN_CLASSES),
    "unlabelled.csv": (_separated(_LABELLED, ","), "classify {g}/classifier {f} -o out.csv --column text"),
    "paraphrases.tsv": (_separated(_PARAPHRASES, "\t"), "data split-pairs {f} -o out --dev 0.2 --test 0.2"),
    "inferences.jsonl": (_json_lines(_INFERENCES), "data nli-triples {f} -o out.csv"),
    "positives.tsv": (
        _separated(_PARAPHRASES, "\t"),
        "data mine-negatives {f} -m {g}/bert --pooling mean -o out.csv --columns sentence1,sentence2",
    ),
    "queries.txt": (_LINES, "index search {g}/index --queries {f}"),
    "found.trec": (_RUN, "eval retrieval {f} --sets {g}/judged"),
    "rows.jsonl": (_json_lines(_ROWS), "encode {f} -m {g}/encoder --text-column text --id-column id -o out"),
    "keys.txt": (b"0123456789abcdef\nfedcba9876543210\n", "serve {g}/encoder --port 0 --keys {f}"),
    "recipe.toml": (
        _RECIPE.encode(),
        f"train sg-opt {TRAIN} --config {{f}} --data {{g}}/sentences.txt --dev none",
    ),
    "experiment.toml": (_EXPERIMENT.encode(), "experiment {f} --explain"),
    "methods.toml": (
        b'[a]\nrecipe = "simcse"\nepochs = 1\n[b]\nrecipe = "sg"\nloss_options.temperature = 0.1\n',
        "experiment {g}/experiment.toml --methods {f} --explain",
    ),
}
"""Name of a file: its valid content and the command that reads it as `{f}`; `{g}` is the ground."""

_STOPPED = (
    "train sg-opt --base {g}/bert --batch-size 4 --max-length 16 --data {g}/sentences.txt "
    "--dev {g}/pairs.tsv --eval-steps 1 --set epochs=5 --set stopping=none "
    "--set loss_options.projection_width=8 -o {f}"
)
FOLDERS: dict[str, str] = {
    "records": "report {f} --baseline bert-cls",
    "compared": "compare bert-cls bert-mean -r {f} --draws 200",
    "index": "index search {f} dog -k 3 -m {g}/bert",
    "living": "index search {f} dog -k 3 -m {g}/bert",
    "run": f"train simcse {TRAIN.replace('-o out', '-o {f}')} --data {{g}}/sentences.txt --dev none --resume",
    "stopped": f"{_STOPPED} --resume",
    "classifier": "classify {f} {g}/labelled.csv -o out.csv --column text",
    "shards": "index build {f} -m {g}/encoder -o out",
    "served": "serve {g}/encoder --index {f} --port 0",
    "encoder": "eval sts {f} --sets {g}/pairs.tsv",
    "updated": "index update {f} {g}/documents.jsonl --text-column text --id-column year -m {g}/bert",
    "judged": "eval retrieval bm25 {g}/bert --pooling mean --sets {f}",
    "vectors": "eval sts {g}/bert --pooling mean --sets {g}/pairs.tsv --cache-dir {f}",
    "sets": "eval sts {g}/bert --pooling mean --sets stsb,sts12 --data-dir {f} --allow-count-mismatch",
    "tasks": f"{TRANSFER} --data-dir {{f}}",
}
"""Name of a folder: the command that reads it as `{f}`."""


TRAININGS = {
    **{
        recipe: f"train {recipe} {TRAIN} --data {{g}}/sentences.txt --dev none"
        for recipe in ("simcse", "sg-opt")
    },
    "pairs": f"train pairs {TRAIN} --data {{g}}/positives.tsv --columns sentence1,sentence2 --held-out 0",
    "quora": f"train quora {TRAIN} --data {{g}}/paraphrases.tsv --dev none",
    **{
        recipe: f"train {recipe} {TRAIN} --train {{g}}/labelled.csv --validation {{g}}/labelled.csv"
        for recipe in ("scl", "supcl-seq", "lacon")
    },
}
"""Recipe: a training of it that is over after two steps."""


def fill(command: str, ground: Path, file: str) -> list[str]:
    """The arguments of a command that reads one file or folder."""
    return [word.replace("{g}", str(ground)).replace("{f}", file) for word in command.split()]


def make_ground(folder: Path, run: Callable[[list[str]], None]) -> None:
    """Write all that is read."""
    folder.mkdir()
    build_tiny_bert(folder / "bert", layers=2)
    for name, (content, _) in READERS.items():
        (folder / name).write_bytes(content)
    (folder / "corpus.txt").write_text("\n".join(make_sentences(400, seed=5)))
    (folder / "library.txt").write_text("\n".join(make_sentences(700, seed=6)))
    (folder / "sample.txt").write_text("\n".join(make_sentences(4_000, seed=8)))
    _make_sets(folder / "sets")
    shutil.copytree(folder / "sets", folder / "tasks")
    _make_judged(folder / "judged")

    def sentemb(command: str, file: str = "") -> None:
        run(fill(command, folder, file))

    for pooling in ("cls", "mean"):
        encoder = f"{{g}}/bert --pooling {pooling}"
        sentemb(f"eval sts {encoder} --sets {{g}}/pairs.tsv -o {{g}}/compared")
        sentemb(
            f"eval sts {encoder} --sets stsb --data-dir {{g}}/sets --allow-count-mismatch -o {{g}}/records"
        )
    sentemb(FOLDERS["vectors"], str(folder / "vectors"))
    sentemb("index build {g}/documents.jsonl -m {g}/bert --pooling mean --text-column text -o {g}/index")
    shutil.copytree(folder / "index", folder / "living")
    sentemb("index add {g}/living {g}/corpus.txt -m {g}/bert")
    sentemb("index delete {g}/living 0 1 2")
    shutil.copytree(folder / "living", folder / "updated")
    for name, recipe in (("run", "simcse"), ("encoder", "simcse")):
        sentemb(
            f"train {recipe} {TRAIN.replace('-o out', '-o {f}')} --data {{g}}/sentences.txt --dev none",
            str(folder / name),
        )
    sentemb("index build {g}/documents.jsonl -m {g}/encoder --text-column text -o {g}/served")
    sentemb("encode {g}/documents.jsonl -m {g}/encoder --text-column text --shard-size 6 -o {g}/shards")
    sentemb("index add {g}/served {g}/corpus.txt -m {g}/encoder")
    sentemb(f"{_TRAIN_CLASSES.replace('-o out', '-o {g}/classifier')}", str(folder / "labelled.csv"))
    _stop(fill(_STOPPED, folder, str(folder / "stopped")), folder / "stopped")


def _make_sets(folder: Path) -> None:
    pairs = [(row["sentence1"], row["sentence2"], row["score"]) for row in _PAIRS]
    write_senteval(folder, pairs, "STS12", "STS-B")
    _make_tasks(folder / "senteval" / "downstream")


def _make_judged(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_bytes(
        _json_lines([{"_id": row["id"], "title": "", "text": row["text"]} for row in _ROWS])
    )
    (folder / "queries.jsonl").write_bytes(
        _json_lines([{"_id": f"q{number}", "text": _TEXTS[-number]} for number in range(3)])
    )
    lines = (f"q{number % 3}\td{number}\t{number % 2 + 1}\n" for number in range(9))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))


def _make_tasks(root: Path) -> None:
    opinions, questions = root / "MR", root / "TREC"
    opinions.mkdir()
    questions.mkdir()
    for sign, seed in (("pos", 8), ("neg", 9)):
        (opinions / f"rt-polarity.{sign}").write_text("\n".join([*make_sentences(20, seed=seed), ""]))
    for name, seed in (("train_5500.label", 10), ("TREC_10.label", 11)):
        lines = (
            f"{('DESC:def', 'NUM:date')[number % 2]} {text}\n"
            for number, text in enumerate(make_sentences(40, seed=seed))
        )
        (questions / name).write_text("".join(lines))


def _stop(arguments: list[str], folder: Path) -> None:
    """Run a training that is interrupted once it has a checkpoint."""
    log = folder.with_suffix(".log")
    process = processes.start(_interrupted, arguments, log=log)
    process.join()
    assert process.exitcode == 130, log.read_text()


def _interrupted(arguments: list[str]) -> None:
    checkpoints = itertools.count(1)

    def interrupt(event: str, names: tuple[Any, ...]) -> None:
        is_checkpoint = event == "os.rename" and Path(str(names[1])).name.startswith("checkpoint-")
        if is_checkpoint and next(checkpoints) == 2:
            signal.raise_signal(signal.SIGINT)

    sys.addaudithook(interrupt)
    processes.command(arguments)
