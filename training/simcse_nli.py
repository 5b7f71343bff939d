"""Contrastive learning on NLI triples under a head of two layers (Chen, Stanford CS224N, section 5.1).

Train SimCSE's objective on SimCSE's triples with the project's optimization. `sentemb train
simcse-supervised` has SimCSE's own settings, with batches of 512 and a head that stays in the model:

    python training/simcse_nli.py --base bert-base-uncased --output simcse-nli

Use batches that do not fit into memory, or triples made from labeled pairs:

    python training/simcse_nli.py --batch-size 512 --mini-batch-size 32 --output simcse-nli-512
    sentemb data nli-triples pairs.tsv --only split=train --output triples.jsonl
    python training/simcse_nli.py --data triples.jsonl --columns sent0,sent1,hard_neg --output mine

Load the result with SentenceTransformer("simcse-nli").
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["train", "simcse-nli", *sys.argv[1:]])
