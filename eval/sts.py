"""Table of the papers: Spearman x 100 on STS12-16, STS-B and SICK-R, without training on any of them.

The protocol is that of SBERT, SimCSE and SG-BERT: cosine similarity of the two sentence vectors; the subsets
of a year concatenated ("all"); STS-B on its 1,379 test pairs, SICK-R on its 4,927 test pairs; the last column
is the mean of the seven. The same vectors give SentEval's "mean" and BERT-flow's "wmean", printed below,
since published rows mix the three.

    python eval/sts.py sentence-transformers/all-MiniLM-L6-v2 --data-dir data --output eval/results
    python eval/sts.py sg-bert-base unsup-simcse --data-dir data --output eval/results
    python eval/sts.py bert-base-uncased --pooling cls --data-dir data --output eval/results

Every model leaves a result record (JSON) and its prediction for every pair in the output folder. Without a
model the tables are made of all the records there, the seeds of a method in one row:

    python eval/sts.py --output eval/results
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from sentemb.data.sts import ScoredPairs
from sentemb.encoding import load_encoder
from sentemb.errors import InputError
from sentemb.evaluation import PROTOCOLS
from sentemb.evaluation.environment import command_line
from sentemb.evaluation.judge import judge_sts
from sentemb.evaluation.records import prepare_folder, read_records, write_record
from sentemb.evaluation.result import ResultRecord
from sentemb.evaluation.seed_table import seed_table
from sentemb.evaluation.sts import load_sets
from sentemb.evaluation.table import sts_table


def judge(model: str, pairs: Sequence[ScoredPairs], arguments: argparse.Namespace) -> ResultRecord:
    """Score one model on the sets and write its record."""
    encoder = load_encoder(model, pooling=arguments.pooling, data_dir=arguments.data_dir)
    place = {"folder": arguments.output, "overwrite": arguments.overwrite}
    record = judge_sts(encoder, pairs, **place, seed=arguments.seed, command=command_line(), progress=True)
    write_record(record, **place)
    return record


def main() -> None:
    """Judge every model named on the command line and print the table in markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help="folder, hub id or word-vector file")
    parser.add_argument("--data-dir", type=Path, help="folder with SentEval's data (default: SENTEMB_DATA)")
    parser.add_argument("--output", type=Path, required=True, help="folder for result records")
    parser.add_argument("--pooling", help="for a raw transformer: cls, mean, first-last, ...")
    parser.add_argument(
        "--seed", type=int, help="seed the models were trained with; known of folders called seed-N"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace records of the same model")
    arguments = parser.parse_args()
    try:
        prepare_folder(arguments.output)
        if arguments.models:
            pairs = load_sets(data_dir=arguments.data_dir)
            records = [judge(model, pairs, arguments) for model in arguments.models]
        else:
            records = read_records(arguments.output)
    except (InputError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
    for protocol in PROTOCOLS:
        table = sts_table if arguments.models else seed_table
        print(table(records, protocol).markdown())


if __name__ == "__main__":
    main()
