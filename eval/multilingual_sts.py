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

import argparse
from pathlib import Path

from sentemb.encoding import load_encoder
from sentemb.evaluation.environment import command_line
from sentemb.evaluation.record import Record, load_records, prepare_folder
from sentemb.evaluation.sts import evaluate_pairs, load_sets
from sentemb.evaluation.suites import MULTILINGUAL
from sentemb.report import sts_table
from sentemb.training.program import run_with_options


def judge(options: argparse.Namespace) -> list[Record]:
    """Score every model that is named and write its record; read the records there are where none is."""
    prepare_folder(options.output)
    if not options.models:
        return load_records(options.output, suite=MULTILINGUAL.name)
    pairs = load_sets(options.sets.split(","), data_dir=options.data_dir)
    place = {"folder": options.output, "overwrite": options.overwrite}
    records = []
    for model in options.models:
        encoder = load_encoder(model, pooling=options.pooling, data_dir=options.data_dir)
        record = evaluate_pairs(
            encoder,
            pairs,
            **place,
            suite=MULTILINGUAL,
            seed=options.seed,
            command=command_line(),
            progress=True,
        )
        records.append(record)
    return records


def main() -> None:
    """Read the command line, judge and print the tables in markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help="folder, hub id or word-vector file")
    parser.add_argument("--sets", default="sts17", help="data sets or families of these")
    parser.add_argument("--data-dir", type=Path, help="folder with the data (default: SENTEMB_DATA, the hub)")
    parser.add_argument("--output", type=Path, required=True, help="folder for result records")
    parser.add_argument("--pooling", help="for a raw transformer: cls, mean, first-last, ...")
    parser.add_argument(
        "--seed", type=int, help="seed the models were trained with; known of folders called seed-N"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace records of the same model")
    records = run_with_options(parser, judge)
    for measure in ("pearson", "spearman"):
        print(sts_table(records, measure=measure).markdown())


if __name__ == "__main__":
    main()
