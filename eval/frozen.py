"""The rows of SG-BERT's table 1 that do not train: a frozen encoder under each pooling.

Poolings of the last layer (cls, mean, max) and of two layers (first-last, last-2), WK pooling, BERT-whitening
of first-last, and BERT-flow of last-2. Whitening and flow are fitted on the sentences of STS-B without their
scores, the flow once per seed:

    python eval/frozen.py --data-dir data --output runs/frozen
    python eval/frozen.py cls flow --base bert-mini --seeds 1,2 --data-dir data --output runs/small

One pass of the sentences through the encoder serves all rows.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "frozen", *sys.argv[1:]])
