"""BERT-flow: a frozen encoder's vectors mapped to a normal distribution (Li et al., EMNLP 2020).

The paper's run from BERT-base on the target sentences, STS-B train, dev and test without their scores; the
last two layers averaged; and what the released code really computes:

    python training/bert_flow.py --output flow-bert-base
    python training/bert_flow.py --preset released --output flow-released

A bundled encoder; an encoder with a pooling of its own, which stays; your own sentences or pairs; the options
of the released code:

    python training/bert_flow.py --base bert-mini --pooling last-2 --output flow-bert-mini
    python training/bert_flow.py --base all-MiniLM-L6-v2 --output flow-minilm
    python training/bert_flow.py --data sentences.txt --output mine
    python training/bert_flow.py --set coupling=affine --set permutation=learned --output glow

Every different sentence is encoded once, then only the flow is trained, which takes seconds. The result loads
as sentemb.load("flow-bert-base").
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["train", "flow", *sys.argv[1:]])
