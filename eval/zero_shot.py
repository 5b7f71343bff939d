r"""SG-BERT's tables 2 and 3: a multilingual encoder trained on English only, judged in other languages.

Multilingual BERT is trained on the sentences of English STS-B (section 4.3), once for each seed, and judged
on SemEval-2014's Spanish set and on SemEval-2017's Arabic, Spanish and English tracks, Pearson x 100; a row
is the mean over its seeds beside the paper's, which has eight:

    python eval/zero_shot.py --data-dir data --output runs/zero-shot
    python eval/zero_shot.py --rows sg-opt --seeds 1,2 --base bert-mini --sets sts17 --data-dir data \
        --output runs/small

SemEval-2014's Spanish files are on no hub: unpack the task's own `sts-es-test.2014` (`STS.input.*.txt` and
`STS.gs.*.txt` of wikipedia and news) in the data folder, or name the other sets with
`--sets sts17-ar-ar,sts17-es-es,sts17-en-en`; `sts17` are all tracks, also those across languages, which the
paper leaves out. Records, resumption and `--keep-models` are those of `eval/ablations.py`. The rows that
train nothing are

    for POOLING in cls mean wk; do python eval/multilingual_sts.py bert-base-multilingual-cased \
        --pooling $POOLING --sets sts14-es,sts17 --data-dir data --output runs/zero-shot; done

and Contrastive (BT) is `training/back_translation.py --base bert-base-multilingual-cased`, judged the same
way. The checkpoint is chosen on English too (STS-B dev), so that no other language is seen before the test.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from sentemb.evaluation.seed_table import seed_table
from sentemb.evaluation.suites import MULTILINGUAL
from sentemb.losses import ViewCache
from sentemb.training.study import Row, recipe_row
from sentemb.training.study_program import recipe_settings, run_study, study_parser

SEEDS = "1,2,3,4,1234,2345,3456,7890"  # table 8
SETS = "sts14-es,sts17-ar-ar,sts17-es-es,sts17-en-en"
# Tables 2 and 3.
PUBLISHED = {
    "sg-opt": "Spanish 2014 82.74, Arabic 58.52, Spanish 80.19, English 78.03",
    "sg": "Spanish 2014 82.09, Arabic 57.09, Spanish 78.93, English 78.24",
}


def rows(options: argparse.Namespace) -> dict[str, Callable[[], Row]]:
    """The rows of both tables that train."""
    cache = ViewCache()
    given = recipe_settings(options, "data")
    return {name: partial(recipe_row, name, name, given, view_cache=cache) for name in PUBLISHED}


def main() -> None:
    """Read the command line, run and print."""
    parser = study_parser(__doc__, rows=list(PUBLISHED), seeds=SEEDS)
    parser.set_defaults(base="bert-base-multilingual-cased", sets=SETS)
    parser.add_argument("--data", help="English text: file, folder, hub id; STS-B's sentences by default")
    records = run_study(parser, rows, suite=MULTILINGUAL)
    table = partial(seed_table, records, MULTILINGUAL.protocol, published=PUBLISHED)
    print(table(measure="pearson").markdown())
    print(seed_table(records, MULTILINGUAL.protocol, measure="spearman").markdown())


if __name__ == "__main__":
    main()
