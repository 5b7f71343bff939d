r"""Tables of the papers: methods trained on labeled texts, with all training rows or a subset.

Reproduce SCL's table 2 (half of GLUE's dev split is the test set; the paper reports the `--best 1` of ten
seeds), LaCon's tables 2 and 7 (at most 5,000 or 1,000 rows per class; dev is the test set) and SG-BERT's
table 10 (the first tenth of dev validates). A rule sets the paper's metrics, and all methods share its
optimization:

    python eval/classification.py ce scl --data rule=scl --sets sst2,cola,mrpc,rte,qnli --output runs/scl
    python eval/classification.py ce scl lacon lacon-fusion --data rule=lacon --sets mrpc,rte,cola -o runs/a
    python eval/classification.py ce --data rule=sg-bert --sets cola,mrpc,rte --base sg-bert-base -o runs/sg

SupCL-Seq's table 1, its numbers and probabilities of views, and the dropout-augmented row of its table 2:

    python eval/classification.py ce supcl-seq-views ce-views --sets cola,rte --output runs/views

A subset that is the same for all methods and seeds, in two processes, with a Chinese base for a Chinese set;
your own rows; your own sets of options:

    python eval/classification.py ce scl lacon --sets sst2,eprstmt --base-for eprstmt=bert-base-chinese \
        --values 2000 --jobs 2 --output runs/small
    python eval/classification.py ce lacon --data train=train.csv --data dev=dev.csv --output runs/own
    python eval/classification.py ce cold warm --methods grid.toml --sets rte --output runs/grid
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "full", *sys.argv[1:]])
