"""Commands that are proposed to the user, written so that a shell takes them as they are."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from sentemb._uris import without_listed_secrets


def program() -> str:
    """Return what starts sentemb in the user's shell: its name if that is on PATH, else its path."""
    if shutil.which("sentemb") is not None:
        return "sentemb"
    started = sys.argv[0]
    if Path(started).stem == "sentemb" and Path(started).parent != Path() and shutil.which(started):
        return shlex.quote(started)
    return f"{shlex.quote(sys.executable)} -m sentemb"


def format_command(*words: object) -> str:
    """Return the command with these arguments, quoted, without the credentials that URIs hold."""
    return f"{program()} {shlex.join(without_listed_secrets(str(word)) for word in words)}"
