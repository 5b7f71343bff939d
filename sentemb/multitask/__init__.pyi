from .model import MultiTaskModel as MultiTaskModel
from .model import TaskEnsemble as TaskEnsemble
from .model import evaluate_tasks as evaluate_tasks
from .run import MultiTaskConfig as MultiTaskConfig
from .run import fit_multitask as fit_multitask
from .tasks import TaskSets as TaskSets
from .tasks import load_task_sets as load_task_sets
from .tasks import read_nli_columns as read_nli_columns
