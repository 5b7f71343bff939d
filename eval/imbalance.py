"""LaCon's figure 3 and table 5: a minority class of 32 training rows, a majority class rho times as large.

    python eval/imbalance.py ce lacon --sets cola,qnli --figures --output runs/imbalance
    python eval/imbalance.py ce scl lacon --sets cola --values 1,10 --base bert-mini --output runs/small

The last table has the F1 of both classes.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "imbalance", *sys.argv[1:]])
