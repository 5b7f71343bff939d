from .choice import Candidate as Candidate
from .choice import Choice as Choice
from .choose import choose as choose
from .leaks import Leak as Leak
from .leaks import find_leaks as find_leaks
