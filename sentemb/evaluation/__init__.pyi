from .comparison import Comparison, Difference, compare, compare_all
from .evaluator import STSEvaluator
from .frame import to_frame
from .geometry import (
    Geometry,
    GeometryEstimate,
    alignment,
    anisotropy,
    effective_rank,
    estimate_geometry,
    measure_geometry,
    spectrum,
    uniformity,
)
from .measures import PROTOCOLS, Protocol
from .record import load_predictions, load_records, read_record, write_record
from .retrieval import RetrievalEvaluator, evaluate_retrieval
from .runner import EvaluationResult, evaluate_all
from .schema import Record
from .sts import UndefinedScoreError, evaluate_pairs, evaluate_sts
from .suites import MULTILINGUAL, STS, Suite, get_suite
from .systems import System, resolve_system, system_of

__all__ = [
    "MULTILINGUAL",
    "PROTOCOLS",
    "STS",
    "Comparison",
    "Difference",
    "EvaluationResult",
    "Geometry",
    "GeometryEstimate",
    "Protocol",
    "Record",
    "RetrievalEvaluator",
    "STSEvaluator",
    "Suite",
    "System",
    "UndefinedScoreError",
    "alignment",
    "anisotropy",
    "compare",
    "compare_all",
    "effective_rank",
    "estimate_geometry",
    "evaluate_all",
    "evaluate_pairs",
    "evaluate_retrieval",
    "evaluate_sts",
    "get_suite",
    "load_predictions",
    "load_records",
    "measure_geometry",
    "read_record",
    "resolve_system",
    "spectrum",
    "system_of",
    "to_frame",
    "uniformity",
    "write_record",
]
