from .experiment import Experiment as Experiment
from .experiment import Method as Method
from .experiment import Setting as Setting
from .experiment import experiment_names as experiment_names
from .experiment import load_experiment as load_experiment
from .labelled_sets import LabelledSets as LabelledSets
from .runner import run_experiment as run_experiment
from .summary import Summary as Summary
from .summary import curves as curves
from .summary import summarize as summarize
from .tables import experiment_tables as experiment_tables
from .tables import write_tables as write_tables

__all__ = [
    "Experiment",
    "LabelledSets",
    "Method",
    "Setting",
    "Summary",
    "curves",
    "experiment_names",
    "experiment_tables",
    "load_experiment",
    "run_experiment",
    "summarize",
    "write_tables",
]
