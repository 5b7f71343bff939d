"""Contrast with back-translations, alone and with SG-OPT (Kim, Yoo and Lee, ACL 2021, A.2 and table 7).

First the back-translations of STS-B's sentences, by the paper's translators with its beam of 100; hours on a
CPU, and an interrupted run resumes where it stopped:

    sentemb data back-translate stsb-sentences --output stsb-back.csv \
        --forward facebook/wmt19-en-de --backward facebook/wmt19-de-en

Then Contrastive (BT), and BT + SG-OPT:

    python training/back_translation.py --base bert-base-uncased --data stsb-back.csv --output bt-bert-base
    python training/back_translation.py --objective bt-sg-opt --data stsb-back.csv --output bt-sg-opt-base

The other reading of appendix A.2, in which the view of a back-translation is a layer of the frozen encoder;
what the authors' code computes once it runs; and your own pairs:

    python training/back_translation.py --view-encoder frozen --data stsb-back.csv --output bt-frozen
    python training/back_translation.py --preset released --data stsb-back.csv --output bt-released
    python training/back_translation.py --data pairs.tsv --columns text,paraphrase --dev none --output mine

The result loads as SentenceTransformer("bt-bert-base").
"""

from __future__ import annotations

from sentemb.cli.train import program

RECIPES = {"bt": "bt", "bt-sg-opt": "bt-sg-opt"}

if __name__ == "__main__":
    program(RECIPES, default="bt")
