r"""STS in other languages and across languages: Pearson x 100, or Spearman with `--measure spearman`.

By default, the sets are the seven tracks of SemEval-2017 task 1 with 250 pairs each, and their average is
the task's primary score: Arabic (1), English-Arabic (2), Spanish (3), English-Spanish (4a), English news and
their Spanish translations graded by quality (4b), English (5) and English-Turkish (6). Scores are cosine
similarities, without training:

    python eval/multilingual_sts.py bert-base-multilingual-cased --pooling mean --data-dir data \
        --output eval/results
    python eval/multilingual_sts.py sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2 \
        --sets sts14-es,sts17,stsb-multi-mt,sts22 --data-dir data --output out

`sts14-es` is SemEval-2014's Spanish set; its score is the mean of its two parts weighted by size, as in the
task. `stsb-multi-mt` is STS-B in ten machine translations, and `sts22` SemEval-2022's news articles in 18
languages and pairs of languages. `sentemb data fetch` downloads what the hub has. Each model writes a record
with its prediction for every pair, which `sentemb compare A B --suite multilingual` reads. SG-BERT's
tables 2 and 3, which train, are `eval/zero_shot.py`.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["eval", "sts", "--suite", "multilingual", *sys.argv[1:]])
