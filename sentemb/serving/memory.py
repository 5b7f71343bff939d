"""How a server holds memory: what it computes with stays its own, and there is an end to it."""

from __future__ import annotations

import ctypes
import os
import sys

_MIB = 2**20
# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# A product is compiled for its number of rows and keeps about 0.5 MiB; a model has three or more for each
# number, and uses them again in its next layer, rarely in its next batch. 1,024 are kept by default, by
# oneDNN for all threads and by torch for each of them. What is kept lies between the memory of batches, so
# that the more there is, the longer the process grows.
_PRODUCTS_KEPT = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": 16, "LRU_CACHE_CAPACITY": 8}


def settle_memory() -> None:
    """Keep the memory of a batch for the next one, and bound what is kept of products of other sizes.

    To be called before anything is computed. By default a thread gives the memory of every layer back to the
    system, which hands out new pages for the next: a seventh of all time in float32, a quarter in bfloat16.
    """
    for name, most in _PRODUCTS_KEPT.items():
        os.environ.setdefault(name, str(most))
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if set_option is not None:
            set_option(_MMAP_THRESHOLD, 32 * _MIB)
            set_option(_TRIM_THRESHOLD, 512 * _MIB)
