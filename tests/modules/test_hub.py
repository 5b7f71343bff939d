"""Base models from a hub on 127.0.0.1: download, cache for offline use, and one-line errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from sentemb.errors import InputError
from sentemb.modules import load
from tests.data.loopback_hub import LoopbackHub

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


def ask(base: str, pooling: str | None, revision: str | None) -> list[str] | str:
    """Return the modules of a model, or why it cannot be loaded."""
    try:
        model = load(base, pooling=pooling, revision=revision, device="cpu")  # type: ignore[arg-type]
    except InputError as error:
        return str(error)
    return [type(module).__name__ for module in model]


@pytest.fixture(scope="module")
def answers(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """Return the answers online and then offline, with the same cache."""
    saved = tmp_path_factory.mktemp("saved") / "encoder"
    load(tiny_bert, pooling="last-2", device="cpu").save(str(saved))
    with LoopbackHub() as server, pytest.MonkeyPatch.context() as patch:
        for name in ("me/raw", "me/late"):
            server.add("models", name, tiny_bert)
        for name in ("me/encoder", "sentence-transformers/short"):
            server.add("models", name, saved)
        server.add("models", "me/nothing", {"README.md": b"no model"})
        # What a process reads from its environment when it starts.
        patch.setattr(constants, "ENDPOINT", server.endpoint)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("/{")
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{server.endpoint}/{{{template[2]}")
        patch.setattr(constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        online = {case: ask(*case) for case in (*LOADED, *REFUSED)}
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        return online, {case: ask(*case) for case in (*LOADED, NEVER_SEEN)}


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
