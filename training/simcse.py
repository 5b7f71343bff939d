"""SimCSE, unsupervised and supervised (Gao, Yao and Chen, EMNLP 2021).

Reproduce the paper's runs from BERT-base, on a million Wikipedia sentences and on NLI triples:

    python training/simcse.py --base bert-base-uncased --output unsup-simcse
    python training/simcse.py --objective supervised --base bert-base-uncased --output sup-simcse

Train several seeds, because single seeds differ by three points and more. Or use your own data:

    python training/simcse.py --output unsup-simcse-5 --seeds 42,1,2,3,4
    python training/simcse.py --base my-encoder --data sentences.txt --output mine
    python training/simcse.py --objective supervised --data triples.csv --columns a,b,c --output mine

Load the result with SentenceTransformer("unsup-simcse").
"""

from __future__ import annotations

from sentemb.cli.main import program

RECIPES = {"unsupervised": "simcse", "supervised": "simcse-supervised"}

if __name__ == "__main__":
    program(RECIPES, default="unsupervised")
