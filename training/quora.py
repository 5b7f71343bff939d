"""Contrastive learning on Quora's question pairs (Chen, Stanford CS224N default project, section 4.1).

The paper's run, in which the loss of non-paraphrases is maximised; without them, as in its table 4; and with
them as further negatives, whose gradient fades once they are apart:

    python training/quora.py --base bert-base-uncased --output quora
    python training/quora.py --negatives ignored --output quora-positives
    python training/quora.py --negatives denominator --output quora-denominator

The project's dev file alone, divided so that no question is in two parts; your own pairs:

    sentemb data split-pairs cs224n-quora --split dev --output quora-parts
    python training/quora.py --data quora-parts/train.jsonl --output quora
    python training/quora.py --data pairs.csv --columns question,other --label same --output mine

The result loads as SentenceTransformer("quora").
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["train", "quora", *sys.argv[1:]])
