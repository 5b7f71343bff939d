"""The papers' main table: Spearman x 100 on STS12-16, STS-B and SICK-R, without training on any of them.

The protocol is that of SBERT, SimCSE and SG-BERT: cosine similarity of the two sentence vectors, the subsets
of a year concatenated ("all"), STS-B on its 1,379 test pairs, SICK-R on its 4,927 test pairs. The last
column is the mean of the seven. `--protocol mean` and `--protocol wmean` show SentEval's and BERT-flow's
protocols, because published rows mix the three.

    python eval/sts.py sentence-transformers/all-MiniLM-L6-v2 --data-dir data --output eval/results
    python eval/sts.py sg-bert-base unsup-simcse --data-dir data --output eval/results
    python eval/sts.py bert-base-uncased --pooling cls --data-dir data --output eval/results

The program calls `sentemb eval sts` and accepts its options. `sentemb report eval/results` shows all records
in the output folder, with the seeds of a method in one row.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["eval", "sts", *sys.argv[1:]])
