"""Table 5 of SCL: 100 labelled examples, three back-translations of each, sampled at growing temperatures.

`sentemb data noisy-copies` makes the back-translations: a file with the columns `index` (row of the training
split, from 0), `temperature` and `augmented`, for pairs also `augmented_pair`.

    python eval/noise.py ce scl --sets sst2 --data copies.sst2=back.tsv --base roberta-large -o runs/noise
    python eval/noise.py --sets sst2 --data copies.sst2=back.tsv --values 0,0.9 --figures --output runs/n

Temperature 0 is the examples alone.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "noise", *sys.argv[1:]])
