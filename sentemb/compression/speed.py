"""How fast a student is beside its teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sentemb.encoding import TextEncoder
from sentemb.evaluation.timing import time_in_turns

TIMED = 100
"""Texts on which a network is timed."""


class Speed(NamedTuple):
    """Texts a second on this machine.

    Attributes:
        student: Of the student.
        teacher: Of its teacher.
    """

    student: float
    teacher: float

    @property
    def ratio(self) -> float:
        """How many times as fast as its teacher the student is."""
        return self.student / self.teacher


def speed_of(student: TextEncoder, teacher: TextEncoder, texts: Sequence[str]) -> Speed:
    """Time both in turns: the student on all texts, the teacher on the first hundred."""
    few = list(texts[:TIMED])
    actions = {"student": lambda: student.encode(texts), "teacher": lambda: teacher.encode(few)}
    took = time_in_turns(actions, rounds=3, warm_up=1)
    return Speed(len(texts) / min(took["student"]), len(few) / min(took["teacher"]))
