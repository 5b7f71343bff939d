"""Masked-language-model pre-training of a small BERT from plain text, or of any base on a user's own text.

    python training/pretrain_mlm.py --corpus texts/ --output runs/bert-mini --max-minutes 120
    python training/pretrain_mlm.py --corpus my.txt --output domain --base bert-base-uncased --max-steps 900

The result is a plain transformers folder; SentenceTransformer("domain") loads it. The same command with
--resume resumes an interrupted run. It is `sentemb train mlm`.
"""

from __future__ import annotations

import os
import sys

from sentemb.cli.main import run

if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    run(["train", "mlm", *sys.argv[1:]])
