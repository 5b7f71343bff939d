r"""SG-BERT's tables 2 and 3: train a multilingual encoder on English only, evaluate it in other languages.

Multilingual BERT is trained on the sentences of English STS-B (section 4.3), once per seed, and evaluated on
SemEval-2014's Spanish set and on SemEval-2017's Arabic, Spanish and English tracks, in Pearson x 100. The
table shows the mean over seeds next to the paper's, which has eight:

    python eval/zero_shot.py --data-dir data --output runs/zero-shot
    python eval/zero_shot.py sg-opt --seeds 1,2 --base bert-mini --sets sts17 -o runs/small

SemEval-2014 Spanish is not on the hub. Unpack the task's `sts-es-test.2014` (`STS.input.*.txt` and
`STS.gs.*.txt` of wikipedia and news) in the data folder, or name the other sets with `--sets
sts17-ar-ar,sts17-es-es,sts17-en-en`. `sts17` are all tracks, also those across languages, which the paper
does not report. For the rows that do not train, run

    for POOLING in cls mean wk; do python eval/multilingual_sts.py bert-base-multilingual-cased \
        --pooling $POOLING --sets sts14-es,sts17 --data-dir data --output runs/zero-shot; done

For Contrastive (BT), run `training/back_translation.py --base bert-base-multilingual-cased` and evaluate in
the same way. The checkpoint is selected on English too (STS-B dev), so no other language is seen before the
test.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "zero-shot", *sys.argv[1:]])
