r"""SentEval's transfer and probing tasks: classifiers on frozen sentence vectors.

    python eval/senteval.py sentence-transformers/all-MiniLM-L6-v2 --data-dir data --output eval/results
    python eval/senteval.py sg-bert-mini --tasks cr,mrpc --preset simcse-fast --data-dir data --output out
    python eval/senteval.py bert-base-uncased --pooling cls --preset sg-bert \
        --seeds 1,2,3,4,1234,2345,3456,7890 --data-dir data --output eval/results

The presets are the settings of published numbers: sg-bert (SG-BERT's table 9: one hidden layer), simcse and
simcse-fast (SimCSE's tables: two settings of logistic regression), and logreg, which does not have a seed.
Do not compare accuracies of different presets. Besides the seven tasks of the papers there are sst5 and
sick-e; and the ten probing tasks, as `probing` or by name. Each model writes a record with its prediction
for every row.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["eval", "transfer", *sys.argv[1:]])
