"""The verbs of `sentemb`, each with the place of its code and an example, as `verbs.toml` lists them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple


class Verb(NamedTuple):
    """Verb that is imported on use from `module:name` below `sentemb.cli`: a function, or an app."""

    target: str
    help: str
    example: str


class Group(NamedTuple):
    """Verbs under one word, such as `sentemb index build`."""

    help: str
    verbs: dict[str, Verb]


_GROUPS = {
    "eval": "Evaluate encoders.",
    "index": "Build, change and search a semantic index.",
    "analyse": "Analyze layers, geometry and maps of encoders.",
    "data": "Find, check and make data sets.",
}
SECTIONS: dict[str, list[str]] = {}
"""The order and the headings of the verbs in `sentemb --help`."""
VERBS: dict[str, Verb | Group] = {name: Group(text, {}) for name, text in _GROUPS.items()}
"""The verbs, and groups of them, by name."""

for _heading, _verbs in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items():
    SECTIONS[_heading] = list(dict.fromkeys(words.partition(" ")[0] for words in _verbs))
    for _words, (_target, _help, _arguments) in _verbs.items():
        _name, _, _second = _words.partition(" ")
        _verb = Verb(_target, _help, f"{_words} {_arguments}".rstrip())
        if isinstance(_group := VERBS.get(_name), Group):
            _group.verbs[_second] = _verb
        else:
            VERBS[_name] = _verb
