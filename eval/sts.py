"""Table of the papers: Spearman x 100 on STS12-16, STS-B and SICK-R, without training on any of them.

The protocol is that of SBERT, SimCSE and SG-BERT: cosine similarity of the two sentence vectors; the subsets
of a year concatenated ("all"); STS-B on its 1,379 test pairs, SICK-R on its 4,927 test pairs; the last column
is the mean of the seven. The same vectors give SentEval's "mean" and BERT-flow's "wmean", printed below,
since published rows mix the three.

    python eval/sts.py sentence-transformers/all-MiniLM-L6-v2 --data-dir data --output eval/results
    python eval/sts.py sg-bert-base unsup-simcse --data-dir data --output eval/results
    python eval/sts.py bert-base-uncased --pooling cls --data-dir data --output eval/results

Models are evaluated by `sentemb eval sts`, whose options are accepted. Without a model the tables are made of
all the records there, the seeds of a method in one row:

    python eval/sts.py --output eval/results
"""

from __future__ import annotations

from sentemb.cli.programs import evaluate_or_show
from sentemb.evaluation.measures import PROTOCOLS
from sentemb.report import sts_table

if __name__ == "__main__":
    evaluate_or_show(
        __doc__,
        ["eval", "sts"],
        suite="sts",
        tables=lambda records: [sts_table(records, protocol=protocol) for protocol in PROTOCOLS],
    )
