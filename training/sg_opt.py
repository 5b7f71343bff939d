r"""SG-OPT: self-guided contrastive learning (Kim, Yoo and Lee, ACL 2021).

Reproduce the paper's run from BERT-base on the sentences of STS-B, or the mean of its eight seeds:

    python training/sg_opt.py --base bert-base-uncased --output sg-bert-base
    python training/sg_opt.py --base bert-base-uncased --output sg-bert-base-8 \
        --seeds 1,2,3,4,1234,2345,3456,7890

Train another row of its table 5, compute what the authors' code computes, or use your own sentences:

    python training/sg_opt.py --objective opt2 --output sg-opt2
    python training/sg_opt.py --preset released --output sg-released
    python training/sg_opt.py --base my-encoder --data sentences.txt --dev none --output mine

Load the result with SentenceTransformer("sg-bert-base").
"""

from __future__ import annotations

from sentemb.cli.main import program

RECIPES = {"base": "sg", "opt1": "sg-opt1", "opt2": "sg-opt2", "opt3": "sg-opt"}

if __name__ == "__main__":
    program(RECIPES, default="opt3")
