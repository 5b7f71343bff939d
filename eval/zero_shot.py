r"""SG-BERT's tables 2 and 3: a multilingual encoder trained on English only, evaluated in other languages.

Multilingual BERT is trained on the sentences of English STS-B (section 4.3), once for each seed, and
evaluated on SemEval-2014's Spanish set and on SemEval-2017's Arabic, Spanish and English tracks, Pearson x
100; a row is the mean over its seeds beside the paper's, which has eight:

    python eval/zero_shot.py --data-dir data --output runs/zero-shot
    python eval/zero_shot.py sg-opt --seeds 1,2 --base bert-mini --sets sts17 -o runs/small

SemEval-2014 Spanish is not on the hub: unpack the task's own `sts-es-test.2014` (`STS.input.*.txt` and
`STS.gs.*.txt` of wikipedia and news) in the data folder, or name the other sets with
`--sets sts17-ar-ar,sts17-es-es,sts17-en-en`; `sts17` are all tracks, also those across languages, which the
paper leaves out. The rows that train nothing are

    for POOLING in cls mean wk; do python eval/multilingual_sts.py bert-base-multilingual-cased \
        --pooling $POOLING --sets sts14-es,sts17 --data-dir data --output runs/zero-shot; done

and Contrastive (BT) is `training/back_translation.py --base bert-base-multilingual-cased`, evaluated the same
way. The checkpoint is chosen on English too (STS-B dev), so that no other language is seen before the test.
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    run(["experiment", "zero-shot", *sys.argv[1:]])
