r"""STS in other languages and across languages: Pearson x 100, with Spearman in a second table.

The sets are the seven tracks of SemEval-2017 task 1, 250 pairs each, and the average over them is the task's
primary score: Arabic (1), English-Arabic (2), Spanish (3), English-Spanish (4a), English news and Spanish
translations of it graded by their quality (4b), English (5) and English-Turkish (6). Cosine similarity, no
training:

    python eval/multilingual_sts.py bert-base-multilingual-cased --pooling mean --data-dir data \
        --output eval/results
    python eval/multilingual_sts.py sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2 \
        --sets sts14-es,sts17,stsb-multi-mt,sts22 --data-dir data --output out

`sts14-es` is SemEval-2014's Spanish set (its score is the mean of its two parts, weighted by their sizes, as
in the task), `stsb-multi-mt` STS-B in ten machine translations, `sts22` SemEval-2022's news articles in 18
languages and pairs of languages; `sentemb data fetch` puts what the hub has into the data folder. Every model
leaves a record with its prediction for every pair, for `sentemb compare A B --suite multilingual`. Without a
model the tables are made of all such records in the output folder, the seeds of a method in one row.
SG-BERT's tables 2 and 3, which train, are `eval/zero_shot.py`.
"""

from __future__ import annotations

from sentemb.cli.programs import evaluate_or_show
from sentemb.report import sts_table

if __name__ == "__main__":
    evaluate_or_show(
        __doc__,
        ["eval", "sts", "--suite", "multilingual"],
        suite="multilingual",
        tables=lambda records: [sts_table(records, measure=measure) for measure in ("pearson", "spearman")],
    )
