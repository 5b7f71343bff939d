"""LaCon: label anchored contrastive learning (Zhang et al., NAACL 2022), and its baselines.

Reproduce the paper's runs from BERT-base: a sample of the training split, 5 % of which select the checkpoint,
and the dev split as test set. Also with the fusion block, or with a baseline under the same optimization:

    python training/lacon.py --task cola --output lacon-cola
    python training/lacon.py --task rte --objective lacon-fusion --output lacon-rte
    python training/lacon.py --task rte --objective leam --output leam-rte

The paper tuned learning rate, batch size, heads, temperature and the weight of the label regularizer per data
set, and does not report the values:

    python training/lacon.py --task rte --set learning_rate=3e-5 --set loss_options.heads=12 --output lacon-12

Use your own texts, or pairs of texts:

    python training/lacon.py --train train.csv --validation dev.csv --test test.csv --output mine

Load the classifier with Classifier.load("lacon-cola"), its encoder with SentenceTransformer("lacon-cola").
"""

from __future__ import annotations

from sentemb.cli.main import program

RECIPES = {
    "lacon": "lacon",
    "lacon-fusion": "lacon-fusion",
    "ce": "ce --protocol lacon",
    "ce-cl": "ce-cl",
    "scl": "scl --protocol lacon",
    "leam": "leam",
    "lsan": "lsan",
}

if __name__ == "__main__":
    program(RECIPES, default="lacon")
