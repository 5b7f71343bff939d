r"""Train one encoder for several tasks, with contrastive learning (Chen, Stanford CS 224N default project).

Reproduce the paper's best single model from BERT-base, on SST-5, Quora's question pairs and STS, or any other
row of its tables 1 to 10 (`sentemb train table1-fusion` is the same):

    python training/multitask.py --data-dir data --output multitask
    python training/multitask.py --row table1-fusion --data-dir data --output fusion
    python training/multitask.py --row table5-nli --nli nli.csv --data-dir data --output nli
    python training/multitask.py --row table7-gradient-surgery --data-dir data --output surgery
    python training/multitask.py --row table7-gradient-surgery --preset released --data-dir data \
        --output surgery-released

The ensemble uses, for each task, the best checkpoint of finished runs:

    python training/multitask.py --row table2-ensemble --runs multitask,single-paraphrase,fusion \
        --data-dir data --output ensemble

The data folder contains cs224n/. If quora-train.csv is missing there, `--held-out` splits quora-dev.csv
instead. Any setting can be changed, and a few rows of each set are enough for a trial:

    python training/multitask.py --held-out 0.2 --set sharing=separate --data-dir data --output own
    python training/multitask.py --data-dir data --held-out 0.2 --rows 50 --base bert-mini \
        --set epochs=1 --set contrast_epochs=1 --output toy

Load the result with MultiTaskModel.load("multitask"), its encoder with SentenceTransformer("multitask"), an
ensemble with TaskEnsemble.load("ensemble").
"""

from __future__ import annotations

import argparse
import sys

from sentemb.cli.train import program
from sentemb.multitask import TaskEnsemble, evaluate_tasks, load_task_sets
from sentemb.multitask.run import score_lines
from sentemb.training.program import run_with_options
from sentemb.training.recipes import recipes_of

ENSEMBLE = "table2-ensemble"


def make_ensemble(options: argparse.Namespace) -> str:
    """Put the best checkpoints of finished runs together and return their scores."""
    _, dev = load_task_sets(data_dir=options.data_dir, held_out=options.held_out)
    ensemble = TaskEnsemble.of_runs(options.runs.split(","))
    ensemble.save(options.output)
    scores = evaluate_tasks(ensemble, dev.sample(options.rows))
    return "\n".join(score_lines(scores, ENSEMBLE, options.output))


if __name__ == "__main__":
    if ENSEMBLE in sys.argv:
        parser = argparse.ArgumentParser(
            description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--row", choices=[ENSEMBLE])
        parser.add_argument("--runs", required=True, help="folders of finished runs: a,b,c")
        parser.add_argument("--output", required=True, help="output folder of the ensemble")
        parser.add_argument("--data-dir", help="folder that contains cs224n/; SENTEMB_DATA by default")
        parser.add_argument("--held-out", type=float, help="fraction of quora-dev.csv to evaluate on")
        parser.add_argument("--rows", type=int, help="maximum number of rows of each set")
        print(run_with_options(parser, make_ensemble))
    else:
        program({row: row for row in recipes_of("multitask")}, default="table2-given", option="row")
