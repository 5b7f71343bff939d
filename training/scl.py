r"""SCL: fine-tune with cross-entropy and supervised contrastive learning (Gunel et al., ICLR 2021).

Reproduce the paper's runs from RoBERTa-large on GLUE, with half of the dev split as test set and about 500
rows of the rest to select by; its baseline; and its loss as printed, whose contrastive term grows with the
batch:

    python training/scl.py --task rte --output scl-rte
    python training/scl.py --task rte --objective ce --output ce-rte
    python training/scl.py --task rte --set loss_options.reduction=sum --output scl-rte-sum

The paper tuned temperature and weight per task, and reports the best of ten seeds:

    python training/scl.py --task rte --set loss_options.temperature=0.1 --set loss_options.weight=0.5 \
        --seeds 7 --output scl-rte-7

Use your own texts, or pairs of texts:

    python training/scl.py --train train.csv --validation dev.csv --test test.csv --output mine

Load the classifier with Classifier.load("scl-rte"), its encoder with SentenceTransformer("scl-rte").
"""

from __future__ import annotations

from sentemb.cli.main import program

RECIPES = {"scl": "scl", "ce": "ce --protocol scl"}

if __name__ == "__main__":
    program(RECIPES, default="scl")
