"""Pretrain a small BERT on plain text, or any base on your own text, by masked language modeling.

    python training/pretrain_mlm.py --corpus texts/ --output runs/bert-mini --max-minutes 120
    python training/pretrain_mlm.py --corpus my.txt --output domain --base bert-base-uncased --max-steps 900

The result is a plain transformers folder. Load it with SentenceTransformer("domain"). The same command with
--resume resumes an interrupted run. `sentemb train mlm` is the same.
"""

from __future__ import annotations

import os
import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    run(["train", "mlm", *sys.argv[1:]])
