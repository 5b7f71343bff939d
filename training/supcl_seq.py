r"""SupCL-Seq: supervised contrastive learning on dropout views (Sedghamiz et al., Findings of EMNLP 2021).

Reproduce the paper's runs from BERT-base on GLUE, with the hyperparameters of its table 4. The linear head of
the second stage is fitted in seconds. As in the authors' notebooks, no checkpoint is selected, and the dev
split is scored:

    python training/supcl_seq.py --task cola --output supcl-cola
    python training/supcl_seq.py --task mrpc --preset released --output supcl-mrpc-released

STS-B, whose rounded grades are classes; other rows of tables 2 and 3; a row of table 1, whose batch sizes
count views:

    python training/supcl_seq.py --task stsb --output supcl-stsb
    python training/supcl_seq.py --task rte --objective ce-views --output ce-views-rte
    python training/supcl_seq.py --task rte --objective supcl-seq-self --output self-rte
    python training/supcl_seq.py --task rte --set loss_options.dropouts=0,0.1 --set batch_size=160 \
        --output two-views-rte

Use your own texts, or pairs of texts:

    python training/supcl_seq.py --train train.csv --validation dev.csv --output mine
    python training/supcl_seq.py --train train.tsv --columns question,answer --label good --output mine

Load the classifier with Classifier.load("supcl-cola"), its encoder with SentenceTransformer("supcl-cola").
"""

from __future__ import annotations

from sentemb.cli.main import program

RECIPES = {
    "supcl-seq": "supcl-seq",
    "supcl-seq-self": "supcl-seq-self",
    "ce": "ce --protocol supcl-seq",
    "ce-views": "ce-views",
}

if __name__ == "__main__":
    program(RECIPES, default="supcl-seq")
