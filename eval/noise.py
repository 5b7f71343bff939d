"""SCL's table 5: 100 labeled examples with three back-translations each, sampled at rising temperatures.

Make the back-translations with `sentemb data noisy-copies`. The file has the columns `index` (row of the
training split, from 0), `temperature` and `augmented`, for pairs also `augmented_pair`.

    python eval/noise.py ce scl --sets sst2 --data copies.sst2=back.tsv --base roberta-large -o runs/noise
    python eval/noise.py --sets sst2 --data copies.sst2=back.tsv --values 0,0.9 --figures --output runs/n

Temperature 0 is the examples alone.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "noise", *sys.argv[1:]])
