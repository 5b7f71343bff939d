"""BERT-whitening: give the vectors of a frozen encoder mean 0 and unit covariance (Su et al., 2021).

Reproduce the paper's run from BERT-base on the target sentences (STS-B train, dev and test) with the first
and the last layer averaged, or make shorter vectors:

    python training/whitening.py --output whitened-bert-base
    python training/whitening.py --dimensions 256 --output whitened-bert-base-256

Use a bundled encoder, an encoder with its own pooling, or your own sentences:

    python training/whitening.py --base bert-mini --pooling last-2 --output whitened-bert-mini
    python training/whitening.py --base all-MiniLM-L6-v2 --dimensions 128 --output whitened-minilm-128
    python training/whitening.py --data sentences.txt --output mine

Load the result with SentenceTransformer("whitened-bert-base").
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["train", "whitening", *sys.argv[1:]])
