"""Contrastive learning on Quora's question pairs (Chen, Stanford CS224N default project, section 4.1).

Reproduce the paper's run, which maximizes the loss of non-paraphrases; ignore them, as in its table 4; or use
them as further negatives, whose gradient fades once they are apart:

    python training/quora.py --base bert-base-uncased --output quora
    python training/quora.py --negatives ignored --output quora-positives
    python training/quora.py --negatives denominator --output quora-denominator

Use only the project's dev file, split so that each question is in one part; or your own pairs:

    sentemb data split-pairs cs224n-quora --split dev --output quora-parts
    python training/quora.py --data quora-parts/train.jsonl --output quora
    python training/quora.py --data pairs.csv --columns question,other --label same --output mine

Load the result with SentenceTransformer("quora").
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["train", "quora", *sys.argv[1:]])
