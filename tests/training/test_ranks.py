"""What `ranks` leaves behind."""

from __future__ import annotations

import subprocess
import sys

# Handlers run in the opposite order: the one below after the one of `ranks`.
LAST = """
import atexit
import torch.distributed as group

atexit.register(lambda: print("there" if group.is_initialized() else "gone"))
group.init_process_group("gloo", store=group.HashStore(), rank=0, world_size=1)
from sentemb.training.ranks import ranks
ranks()
"""


def test_no_group_outlives_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", LAST], capture_output=True, text=True, check=False)
    assert done.stdout == "gone\n", done.stderr
