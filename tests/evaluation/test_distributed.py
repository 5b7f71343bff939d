"""Two ranks of a trainer see one evaluation."""

from __future__ import annotations

import csv
import json
import os
import socket
from pathlib import Path

import pytest
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)

from sentemb.data.sts import read_scored_pairs
from sentemb.evaluation import STSEvaluator
from tests import processes


def train_on_rank(model: str, table: Path, output: Path) -> None:
    """Evaluate twice, and note what this rank saw of the scores."""
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    encoder = SentenceTransformer(model, device="cpu")
    pairs = read_scored_pairs(table, name="mine", split="dev")
    options = {"max_steps": 2, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "no"}
    quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "ddp_backend": "gloo"}
    trainer = SentenceTransformerTrainer(
        model=encoder,
        args=SentenceTransformerTrainingArguments(
            str(output), per_device_train_batch_size=2, **options, **quiet
        ),
        train_dataset=Dataset.from_dict({"anchor": pairs.first, "positive": pairs.second}),
        loss=MultipleNegativesRankingLoss(encoder),
        evaluator=STSEvaluator(pairs=[pairs]),
    )
    trainer.train()
    key = trainer.evaluator.best_metric_key
    seen = [entry[key] for entry in trainer.state.log_history if key in entry]
    (output / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(seen))
    if os.environ["RANK"] == "0":
        encoder.save(str(output / "model"))


def test_two_ranks_see_one_evaluation(tiny_encoder: SentenceTransformer, tmp_path: Path) -> None:
    tiny_encoder.save(str(tmp_path / "start"))
    table, output, log = tmp_path / "pairs.tsv", tmp_path / "out", tmp_path / "log.txt"
    words = "cat dog man woman birds children house park".split()
    rows = [
        f"the {one} sat\ta {two} ran\t{(5 * first + second) % 11}"
        for first, one in enumerate(words)
        for second, two in enumerate(words)
    ]
    table.write_text("sentence1\tsentence2\tscore\n" + "\n".join(rows) + "\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    arguments = (str(tmp_path / "start"), table, output)
    ranks = [
        processes.start(train_on_rank, *arguments, log=log, RANK=rank, LOCAL_RANK=rank, **shared)
        for rank in ("0", "1")
    ]
    for rank in ranks:
        rank.join()
        assert rank.exitcode == 0, log.read_text()
    first, second = (json.loads((output / f"rank-{rank}.json").read_text()) for rank in range(2))
    assert len(first) == 2
    assert first == second
    (path,) = output.rglob("sts-dev_results.csv")
    with path.open(newline="") as file:
        scores = [float(row["spearman_cosine"]) for row in csv.DictReader(file)]
    assert scores == first
    pairs = read_scored_pairs(table, name="mine", split="dev")
    alone = STSEvaluator(pairs=[pairs])(SentenceTransformer(str(output / "model"), device="cpu"))
    assert alone["sts-dev_spearman_cosine"] == pytest.approx(first[-1], abs=1e-4)
