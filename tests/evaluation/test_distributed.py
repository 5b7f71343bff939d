from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from sentemb.data.sts import read_scored_pairs
from sentemb.evaluation import STSEvaluator

# One rank of a run that evaluates twice, and what it saw of the scores.
RANK = """
import json, os, sys, torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentemb.data.sts import read_scored_pairs
from sentemb.evaluation import STSEvaluator

model, table, output = sys.argv[1:]
encoder = SentenceTransformer(model, device="cpu")
pairs = read_scored_pairs(table, name="mine", split="dev")
trainer = SentenceTransformerTrainer(
    model=encoder,
    args=SentenceTransformerTrainingArguments(
        output_dir=output, max_steps=2, per_device_train_batch_size=2, eval_strategy="steps", eval_steps=1,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, ddp_backend="gloo",
    ),
    train_dataset=Dataset.from_dict({"anchor": pairs.first, "positive": pairs.second}),
    loss=MultipleNegativesRankingLoss(encoder),
    evaluator=STSEvaluator(pairs=[pairs]),
)
trainer.train()
rank = os.environ["RANK"]
key = trainer.evaluator.best_metric_key
seen = [entry[key] for entry in trainer.state.log_history if key in entry]
with open(f"{output}/rank-{rank}.json", "w") as file:
    json.dump(seen, file)
if rank == "0":
    encoder.save(f"{output}/model")
torch.distributed.barrier()
os._exit(0)  # the trainer still holds gloo's threads, which abort an interpreter that ends before them
"""


def test_two_ranks_see_one_evaluation(tiny_encoder: SentenceTransformer, tmp_path: Path) -> None:
    tiny_encoder.save(str(tmp_path / "start"))
    table = tmp_path / "pairs.tsv"
    words = "cat dog man woman birds children house park".split()
    rows = [
        f"the {one} sat\ta {two} ran\t{(5 * first + second) % 11}"
        for first, one in enumerate(words)
        for second, two in enumerate(words)
    ]
    table.write_text("sentence1\tsentence2\tscore\n" + "\n".join(rows) + "\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        variables["MASTER_PORT"] = str(free.getsockname()[1])
    output = tmp_path / "out"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(tmp_path / "start"), str(table), str(output)],
            env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate()[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], errors[0][-2000:] + errors[1][-2000:]
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
