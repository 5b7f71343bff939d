r"""Train one encoder for several tasks, with contrastive learning (Chen, Stanford CS 224N default project).

Reproduce the paper's best single model from BERT-base, on SST-5, Quora's question pairs and STS, or any other
row of its tables 1 to 10 (`sentemb train table1-fusion` is the same):

    python training/multitask.py --data-dir data --output multitask
    python training/multitask.py --row table1-fusion --data-dir data --output fusion
    python training/multitask.py --row table5-nli --nli nli.csv --data-dir data --output nli
    python training/multitask.py --row table7-gradient-surgery --data-dir data --output surgery
    python training/multitask.py --row table7-gradient-surgery --preset released --data-dir data \
        --output surgery-released

The ensemble of table 2 uses, for each task, the best checkpoint of finished runs:

    TaskEnsemble.of_runs(["multitask", "single-paraphrase", "fusion"])

The data folder contains cs224n/. If quora-train.csv is missing there, `--held-out` splits quora-dev.csv
instead. Any setting can be changed, and a few rows of each set are enough for a trial:

    python training/multitask.py --held-out 0.2 --set sharing=separate --data-dir data --output own
    python training/multitask.py --data-dir data --held-out 0.2 --rows 50 --base bert-mini \
        --set epochs=1 --set contrast_epochs=1 --output toy

Load the result with MultiTaskModel.load("multitask"), its encoder with SentenceTransformer("multitask").
"""

from __future__ import annotations

from sentemb.cli.main import program
from sentemb.training.recipes import recipes_of

if __name__ == "__main__":
    program({row: row for row in recipes_of("multitask")}, default="table2-given", option="row")
