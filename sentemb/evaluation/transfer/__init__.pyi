from .adapter import senteval_adapter as senteval_adapter
from .evaluate import evaluate_transfer as evaluate_transfer
from .presets import PRESETS as PRESETS
from .tasks import PROBING_TASKS as PROBING_TASKS
from .tasks import RELATEDNESS_TASKS as RELATEDNESS_TASKS
from .tasks import TASKS as TASKS
from .tasks import TRANSFER_TASKS as TRANSFER_TASKS
from .tasks import load_tasks as load_tasks
