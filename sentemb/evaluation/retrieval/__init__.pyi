from .metrics import METRICS as METRICS
from .metrics import query_scores as query_scores
