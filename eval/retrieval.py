"""Search on queries with qrels: graded NDCG@10, recall@100 and more, by trec_eval's definitions.

    python eval/retrieval.py sentence-transformers/all-MiniLM-L6-v2 bm25 --data-dir data --output eval/results
    python eval/retrieval.py hybrid:bert-mini --sets scifact,xquad-r/de,my-folder --data-dir data --output out
    python eval/retrieval.py other-system.trec --sets scifact --data-dir data --output out

A system is an encoder, searched exactly with its own prompts for queries and documents; `bm25`;
`hybrid:MODEL`, the fusion of both; or a run file of another system in TREC's format. Sets are those of the
catalog, or folders in BEIR's layout. Each system writes a record with the ranks of all judged documents.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["eval", "retrieval", *sys.argv[1:]])
