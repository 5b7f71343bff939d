"""Transfer tasks: classifiers on frozen sentence vectors, as in SentEval."""

from __future__ import annotations

from sentemb.evaluation.transfer.evaluate import evaluate_transfer as evaluate_transfer
from sentemb.evaluation.transfer.tasks import PRESETS as PRESETS
from sentemb.evaluation.transfer.tasks import PROBING_TASKS as PROBING_TASKS
from sentemb.evaluation.transfer.tasks import TASKS as TASKS
from sentemb.evaluation.transfer.tasks import TRANSFER_TASKS as TRANSFER_TASKS
from sentemb.evaluation.transfer.tasks import load_tasks as load_tasks
