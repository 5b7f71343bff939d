r"""SG-BERT's table 5: what each part of SG-OPT is worth, and what its hyper-parameters do.

Every row is trained once for each seed on the sentences of STS-B and evaluated on the seven STS sets; a row
of the table is the mean over its seeds beside the paper's, which has eight:

    python eval/ablations.py --data-dir data --output runs/ablations
    python eval/ablations.py sg-opt sg --seeds 1,2 --base bert-mini --set max_steps=300 \
        --set learning_rate=1.5e-4 --data-dir data --output runs/small

Each row and seed leaves the record of the model BASE-ROW-seed-N, and is not run again: the same command
resumes. A model is removed once it is evaluated, unless `--keep-models` is given. From BERT-base a row and
seed is the paper's 1,079 steps of 16 sentences with 22 passes over STS-B dev; all rows share one computation
of the frozen encoder's views. What `--set` gives is for all rows, but for the one change that a row is about.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "ablations", *sys.argv[1:]])
