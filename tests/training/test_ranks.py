"""What `ranks` leaves behind."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from sentemb.errors import InputError
from sentemb.training import ranks as module
from sentemb.training.ranks import refuse_several

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


def test_what_takes_one_process_refuses_several(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_several("adaptation")
    monkeypatch.setattr(module, "ranks", lambda: SimpleNamespace(num_processes=2))
    with pytest.raises(InputError, match="adaptation runs in a single process, but 2 were started"):
        refuse_several("adaptation")
