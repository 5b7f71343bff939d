r"""Contrastive learning with back-translations, alone or with SG-OPT (Kim, Yoo and Lee, ACL 2021, A.2).

First back-translate the sentences of STS-B with the paper's translators and its beam of 100. This takes hours
on a CPU; an interrupted run resumes:

    sentemb data back-translate stsb-sentences --output stsb-back.csv \
        --forward facebook/wmt19-en-de --backward facebook/wmt19-de-en

Then train Contrastive (BT), or BT + SG-OPT (table 7):

    python training/back_translation.py --base bert-base-uncased --data stsb-back.csv --output bt-bert-base
    python training/back_translation.py --objective bt-sg-opt --data stsb-back.csv --output bt-sg-opt-base

Appendix A.2 can be read in another way, in which the view of a back-translation is a layer of the frozen
encoder. Or compute what the authors' code computes, or use your own pairs:

    python training/back_translation.py --view-encoder frozen --data stsb-back.csv --output bt-frozen
    python training/back_translation.py --preset released --data stsb-back.csv --output bt-released
    python training/back_translation.py --data pairs.tsv --columns text,paraphrase --dev none --output mine

Load the result with SentenceTransformer("bt-bert-base").
"""

from __future__ import annotations

from sentemb.cli.main import program

RECIPES = {"bt": "bt", "bt-sg-opt": "bt-sg-opt"}

if __name__ == "__main__":
    program(RECIPES, default="bt")
