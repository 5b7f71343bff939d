"""BERT-flow: map the vectors of a frozen encoder to a normal distribution (Li et al., EMNLP 2020).

Reproduce the paper's run from BERT-base, on the target sentences (STS-B train, dev and test without their
scores) with the last two layers averaged; or compute what the released code computes:

    python training/bert_flow.py --output flow-bert-base
    python training/bert_flow.py --preset released --output flow-released

Use a bundled encoder, an encoder with its own pooling, your own sentences or pairs, or the options of the
released code:

    python training/bert_flow.py --base bert-mini --pooling last-2 --output flow-bert-mini
    python training/bert_flow.py --base all-MiniLM-L6-v2 --output flow-minilm
    python training/bert_flow.py --data sentences.txt --output mine
    python training/bert_flow.py --set coupling=affine --set permutation=learned --output glow

Each unique sentence is encoded once. Then only the flow is trained, which takes seconds. Load the result with
sentemb.load("flow-bert-base"); plain sentence-transformers does not have the flow.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["train", "flow", *sys.argv[1:]])
