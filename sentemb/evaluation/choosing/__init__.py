"""Choosing among encoders for your own documents, with or without qrels."""

from __future__ import annotations

from sentemb.evaluation.choosing.choice import Candidate, Choice
from sentemb.evaluation.choosing.choose import choose
from sentemb.evaluation.choosing.leaks import Leak, find_leaks

__all__ = ["Candidate", "Choice", "Leak", "choose", "find_leaks"]
