r"""Several tasks on one encoder, with contrastive learning (Chen, Stanford CS 224N default project).

The paper's best single model from BERT-base, on SST-5, Quora's question pairs and STS, all of which one saved
model answers; and any other row of its Tables 1 to 10 (`sentemb train table1-fusion` is the same):

    python training/multitask.py --data-dir data --output multitask
    python training/multitask.py --row table1-fusion --data-dir data --output fusion
    python training/multitask.py --row table5-nli --nli nli.csv --data-dir data --output nli
    python training/multitask.py --row table7-gradient-surgery --data-dir data --output surgery
    python training/multitask.py --row table7-gradient-surgery --preset released --data-dir data \
        --output surgery-released

The ensemble asks for each task the best checkpoint among finished runs:

    python training/multitask.py --row table2-ensemble --runs multitask,single-paraphrase,fusion \
        --data-dir data --output ensemble

The data folder holds cs224n/. Where quora-train.csv is missing there, a part of quora-dev.csv can take its
place. Any setting may be changed, and a few rows of everything are enough to try a row out:

    python training/multitask.py --held-out 0.2 --set sharing=separate --data-dir data --output own
    python training/multitask.py --data-dir data --held-out 0.2 --rows 50 --base bert-mini \
        --set epochs=1 --set contrast_epochs=1 --output toy

The result loads as MultiTaskModel.load("multitask"), its encoder as SentenceTransformer("multitask"), an
ensemble as TaskEnsemble.load("ensemble").
"""

from __future__ import annotations

import sys

from sentemb.cli.train import program
from sentemb.multitask.program import ENSEMBLE, ensemble_program
from sentemb.training.recipes import recipes_of

if __name__ == "__main__":
    if ENSEMBLE in sys.argv:
        ensemble_program(__doc__)
    else:
        program({row: row for row in recipes_of("multitask")}, default="table2-given", option="row")
