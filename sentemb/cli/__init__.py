"""The `sentemb` command: one file per verb, none of which imports torch before it runs."""

from __future__ import annotations
