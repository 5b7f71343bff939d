"""Modules and compiled patterns of the commands, for the server of `processes`, which imports this and forks.

A forked process does not collect what is frozen here: that would copy half a gigabyte.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil

import rapidfuzz.process  # noqa: F401
from transformers.conversion_mapping import get_checkpoint_conversion_mapping
from transformers.models.bert import modeling_bert, tokenization_bert  # noqa: F401

from sentemb import classification, cli, data, evaluation, search

for package in (classification, cli, data, evaluation, search):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not module.name.endswith(("cli.serve", "search.lancedb", "search.move")):  # these start threads
            importlib.import_module(module.name)
get_checkpoint_conversion_mapping("bert")
gc.collect()
gc.freeze()
