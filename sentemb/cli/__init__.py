"""The `sentemb` command: one file per verb, imported on use; none imports torch before it runs."""

from __future__ import annotations

from sentemb._threads import share_cores

share_cores()
