"""The papers' main table: Spearman x 100 on STS12-16, STS-B and SICK-R, without training on any of them.

The protocol is that of SBERT, SimCSE and SG-BERT: cosine similarity of the two sentence vectors, the subsets
of a year concatenated ("all"), STS-B on its 1,379 test pairs, SICK-R on its 4,927 test pairs. The last
column is the mean of the seven. Two more tables from the same vectors show SentEval's "mean" and BERT-flow's
"wmean", because published rows mix the three.

    python eval/sts.py sentence-transformers/all-MiniLM-L6-v2 --data-dir data --output eval/results
    python eval/sts.py sg-bert-base unsup-simcse --data-dir data --output eval/results
    python eval/sts.py bert-base-uncased --pooling cls --data-dir data --output eval/results

The program calls `sentemb eval sts` and accepts its options. Without a model, the tables show all records in
the output folder, with the seeds of a method in one row:

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
