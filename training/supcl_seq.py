r"""SupCL-Seq: supervised contrastive learning on dropout views (Sedghamiz et al., Findings of EMNLP 2021).

The paper's runs from BERT-base on GLUE, with the hyper-parameters of its Table 4; the linear head of the
second stage is fitted in seconds. As in the authors' notebooks nothing is chosen, the dev split is scored:

    python training/supcl_seq.py --task cola --output supcl-cola
    python training/supcl_seq.py --task mrpc --preset released --output supcl-mrpc-released

STS-B, whose grades are classes once they are rounded; the other rows of Tables 2 and 3; a row of Table 1,
whose batch sizes count views:

    python training/supcl_seq.py --task stsb --output supcl-stsb
    python training/supcl_seq.py --task rte --objective ce-views --output ce-views-rte
    python training/supcl_seq.py --task rte --objective supcl-seq-self --output self-rte
    python training/supcl_seq.py --task rte --set loss_options.dropouts=0,0.1 --set batch_size=160 \
        --output two-views-rte

Your own texts, or pairs of texts:

    python training/supcl_seq.py --train train.csv --validation dev.csv --output mine
    python training/supcl_seq.py --train train.tsv --columns question,answer --label good --output mine

The result loads as Classifier.load("supcl-cola"), its encoder as SentenceTransformer("supcl-cola").
"""

from __future__ import annotations

from sentemb.cli.train import program

RECIPES = {
    "supcl-seq": "supcl-seq",
    "supcl-seq-self": "supcl-seq-self",
    "ce": "ce --protocol supcl-seq",
    "ce-views": "ce-views",
}

if __name__ == "__main__":
    program(RECIPES, default="supcl-seq")
