"""Table 5 of SCL: 100 labelled examples, three back-translations of each, sampled at growing temperatures.

The back-translations are made elsewhere. A file of them has the columns `index` (row of the training split,
from 0), `temperature` and `augmented`, for pairs also `augmented_pair`:

    python eval/noise.py ce scl --sets sst2 --copies sst2=back.tsv --base roberta-large --output runs/noise
    python eval/noise.py ce scl --sets sst2 --copies sst2=back.tsv --values 0,0.9 --figures --output runs/n

Temperature 0 is the examples alone. It is `sentemb eval classify noise`.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["eval", "classify", "noise", *sys.argv[1:]])
