from .experiment import Experiment as Experiment
from .experiment import experiment_names as experiment_names
from .experiment import load_experiment as load_experiment
from .runner import run_experiment as run_experiment
from .tables import experiment_tables as experiment_tables
from .tables import write_tables as write_tables

__all__ = [
    "Experiment",
    "experiment_names",
    "experiment_tables",
    "load_experiment",
    "run_experiment",
    "write_tables",
]
