r"""SG-BERT's table 5: ablations and hyperparameters of SG-OPT.

Train each row once per seed on the sentences of STS-B and evaluate it on the seven STS sets. The table shows
the mean over seeds next to the paper's, which has eight:

    python eval/ablations.py --data-dir data --output runs/ablations
    python eval/ablations.py sg-opt sg --seeds 1,2 --base bert-mini --set max_steps=300 \
        --set learning_rate=1.5e-4 --data-dir data --output runs/small

Each row and seed writes the record of the model BASE-ROW-seed-N and does not run again, so the same command
resumes. Models are removed after their evaluation, unless you pass `--keep-models`. From BERT-base, one row
and seed takes the paper's 1,079 steps of 16 sentences, with 22 evaluations on STS-B dev. All rows share one
computation of the frozen encoder's views. `--set` changes all rows, except for the value that a row varies.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "ablations", *sys.argv[1:]])
