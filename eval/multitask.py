r"""Tables of the CS224N paper: several tasks on one encoder, mean over seeds next to the paper's figures.

    python eval/multitask.py --data-dir data --output results/multitask
    python eval/multitask.py table-1 table-6 --seeds 1,2,3 --data-dir data --output results/multitask

Each row is trained once per seed and writes a record. Rows that several tables share are trained once. The
paper's sizes take days without an accelerator. A smaller study in two processes:

    OMP_NUM_THREADS=1 python eval/multitask.py --base bert-mini --data held_out=0.2 --data rows=400 --jobs 2 \
        --set epochs=3 --set contrast_epochs=1 --set nli_epochs=1 --set learning_rate=1e-4 \
        --set contrast_learning_rate=1e-4 --set max_length=64 --data nli=nli.csv --data-dir data \
        --output results/small
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "multitask", *sys.argv[1:]])
