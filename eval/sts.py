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

import argparse
from pathlib import Path

from sentemb.cli.main import run
from sentemb.errors import InputError
from sentemb.evaluation.measures import PROTOCOLS
from sentemb.evaluation.record import load_records
from sentemb.report import sts_table


def main() -> None:
    """Evaluate the models, or make the tables of the records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help="folder, hub id or word-vector file")
    parser.add_argument("--output", type=Path, required=True, help="folder for result records")
    arguments, options = parser.parse_known_args()
    if arguments.models:
        run(["eval", "sts", *arguments.models, "--output", str(arguments.output), *options])
    try:
        records = load_records(arguments.output, suite="sts")
    except (InputError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
    for protocol in PROTOCOLS:
        print(sts_table(records, protocol=protocol).markdown())


if __name__ == "__main__":
    main()
