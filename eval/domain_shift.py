"""SG-BERT's figure 4: what training on NLI sentences, not on those of STS-B, costs SG-OPT and BERT-flow.

Each method is trained on both, once for each seed, and evaluated on the seven STS sets; what it loses by the
change of domain stands below the table, beside what the paper reads off its figure:

    python eval/domain_shift.py --data-dir data --output runs/domain
    python eval/domain_shift.py --data sample=nli.tsv --data columns=premise,hypothesis --output runs/own

The paper takes "the mix" of SNLI and MNLI and names no size. Here as many pairs are drawn as STS-B has, so
that both runs have equally many steps: SG-OPT trains on their sentences one by one, the flow on the pairs.
From BERT-base a seed of SG-OPT is 1,079 steps of 16 sentences, of the flow 270 steps of 32 pairs on vectors
that are encoded once.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "domain-shift", *sys.argv[1:]])
