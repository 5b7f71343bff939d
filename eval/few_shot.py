"""Tables of the papers: methods trained on few labeled texts.

- SCL's table 4: 20, 100 and 1,000 examples in total, ten training sets, the mean of the three best by
  validation.
- LaCon's table 4 and figure 2: 20 examples per class, and equally many to validate.
- SCL's table 7: train each method on one task, then on 20 examples per class of another.

    python eval/few_shot.py scl ce scl --sets sst2,qnli,mnli --output runs/few-scl
    python eval/few_shot.py lacon ce lacon --sets rte,mrpc,tnews-few,eprstmt --output runs/few-lacon
    python eval/few_shot.py lacon ce lacon --values 10,20,50,100 --figures --sets rte --output runs/figure-2
    python eval/few_shot.py transfer ce scl --data source=sst2 --sets yelp --output runs/transfer
"""

from __future__ import annotations

import sys

from sentemb.cli.main import run

EXPERIMENTS = {"scl": "few-shot", "lacon": "few-shot-per-class", "transfer": "transfer"}

if __name__ == "__main__":
    paper, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--list", [])
    run(["experiment", EXPERIMENTS.get(paper, paper), *rest])
