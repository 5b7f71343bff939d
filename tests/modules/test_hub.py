"""Base models from a hub on 127.0.0.1: download, cache for offline use, and one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentemb.modules import load
from tests.data.loopback_hub import LoopbackHub

PROGRAM = """
import json, sys
from sentemb.errors import InputError
from sentemb.modules import load
answers = []
for base, pooling, revision in json.loads(sys.argv[1]):
    try:
        model = load(base, pooling=pooling, revision=revision, device="cpu")
        answers.append([type(module).__name__ for module in model])
    except InputError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""
Case = tuple[str, str | None, str | None]

LOADED: dict[Case, list[str]] = {
    ("me/raw", None, None): ["Transformer", "Pooling"],
    ("me/encoder", None, None): ["Transformer", "WeightedLayerPooling", "Pooling"],
    ("me/encoder", "cls", None): ["Transformer", "Pooling"],
    ("short", None, None): ["Transformer", "WeightedLayerPooling", "Pooling"],
}
REFUSED: dict[Case, str] = {
    ("me/absent", "cls", None): "model 'me/absent' not found: it is neither a local folder nor a repository",
    ("absent", "cls", None): "model 'absent' not found",
    ("me/raw", "cls", "no-such-branch"): "me/raw does not have a revision 'no-such-branch'",
    ("me/nothing", "cls", None): "contains neither config.json nor modules.json",
}
NEVER_SEEN: Case = ("me/late", "cls", None)

Answers = dict[Case, list[str] | str]


@pytest.fixture(scope="module")
def answers(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """Return the answers online and then offline, with the same cache.

    The hub's address and the offline mode are read on import, so each needs a new process. All cases share it
    because the import takes longer than all of them.
    """
    saved = tmp_path_factory.mktemp("saved") / "encoder"
    load(tiny_bert, pooling="last-2", device="cpu").save(str(saved))
    cache = tmp_path_factory.mktemp("cache")
    with LoopbackHub() as server:
        for name in ("me/raw", "me/late"):
            server.add("models", name, tiny_bert)
        for name in ("me/encoder", "sentence-transformers/short"):
            server.add("models", name, saved)
        server.add("models", "me/nothing", {"README.md": b"no model"})

        def ask(cases: list[Case], *, offline: bool) -> Answers:
            environment = os.environ | server.environment(cache) | {"HF_HUB_OFFLINE": str(int(offline))}
            command = [sys.executable, "-c", PROGRAM, json.dumps(cases)]
            result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert result.returncode == 0, result.stderr
            return dict(zip(cases, json.loads(result.stdout.splitlines()[-1]), strict=True))

        return (
            ask([*LOADED, *REFUSED], offline=False),
            ask([*LOADED, NEVER_SEEN], offline=True),
        )


@pytest.mark.parametrize("case", LOADED)
def test_models_load_and_load_again_offline(answers: tuple[Answers, Answers], case: Case) -> None:
    online, offline = answers
    assert online[case] == LOADED[case]
    assert offline[case] == LOADED[case]


@pytest.mark.parametrize("case", REFUSED)
def test_user_errors_are_one_line(answers: tuple[Answers, Answers], case: Case) -> None:
    message = answers[0][case]
    assert isinstance(message, str)
    assert REFUSED[case] in message
    assert "\n" not in message


def test_what_was_never_downloaded_is_refused_offline(answers: tuple[Answers, Answers]) -> None:
    assert "neither a local folder nor in the hub's cache" in answers[1][NEVER_SEEN]
