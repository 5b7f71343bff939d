from .entries import LOADERS as LOADERS
from .entries import load_suites as load_suites
from .run import EvaluationResult as EvaluationResult
from .run import evaluate_all as evaluate_all
from .run import run_suites as run_suites
from .suite import Options as Options
