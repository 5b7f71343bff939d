"""A hub on 127.0.0.1 that answers what huggingface_hub and datasets ask for when they download.

    with LoopbackHub() as hub:
        hub.add("datasets", "me/texts", {"train.jsonl": b"..."})
        hub.add("models", "me/encoder", folder)
        subprocess.run([...], env=os.environ | hub.environment(cache))

huggingface_hub reads `HF_ENDPOINT` and `HF_HUB_OFFLINE` on import, so the client must be a new process.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

Kind = Literal["models", "datasets"]


@dataclass
class Repository:
    """One repository: its files, which its commit and its branch have."""

    files: dict[str, bytes]
    commit: str

    @property
    def revisions(self) -> set[str]:
        return {self.commit, "main"}


class LoopbackHub:
    """A server thread; `requests` lists what clients asked, as `GET /path`."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.requests: list[str] = []
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def add(
        self, kind: Kind, name: str, files: Path | Mapping[str, bytes], *, commit: str | None = None
    ) -> Repository:
        """Publish a folder or a mapping of path to content; by default the content decides the commit."""
        if isinstance(files, Path):
            paths = sorted(path for path in files.rglob("*") if path.is_file())
            files = {path.relative_to(files).as_posix(): path.read_bytes() for path in paths}
        commit = commit or hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        repository = Repository(dict(files), commit)
        self.repositories[kind, name] = repository
        return repository

    def environment(self, cache: Path) -> dict[str, str]:
        """Variables for a client process that knows only this hub and an empty cache."""
        off = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
        on = ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_PROGRESS_BARS")
        local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")
        switches = dict.fromkeys(off, "0") | dict.fromkeys(on, "1")
        return {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(cache), **switches, **local}

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    do_HEAD = do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, body: bytes) -> None:
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        self.hub.requests.append(f"{self.command} {url.path}")
        if parts[0] == "api" and len(parts) >= 4 and parts[1] in ("models", "datasets"):
            self._api(parts[1], "/".join(parts[2:4]), parts[4:], parse_qs(url.query), body)
        elif "resolve" in parts:
            kind = "datasets" if parts[0] == "datasets" else "models"
            start = 1 if kind == "datasets" else 0
            at = parts.index("resolve")
            self._resolve(kind, "/".join(parts[start:at]), parts[at + 1], "/".join(parts[at + 2 :]))
        else:
            self._fail("EntryNotFound")

    def _repository(self, kind: str, name: str, revision: str) -> Repository | None:
        repository = self.hub.repositories.get((kind, name))
        if repository is not None and revision in repository.revisions:
            return repository
        self._fail("RepoNotFound" if repository is None else "RevisionNotFound")
        return None

    def _api(
        self, kind: str, name: str, rest: list[str], query: Mapping[str, list[str]], body: bytes
    ) -> None:
        repository = self._repository(kind, name, rest[1] if len(rest) > 1 else "main")
        if repository is None:
            return
        action = rest[0] if rest else "revision"
        if action == "revision":
            files = [{"rfilename": path} for path in repository.files]
            flags = {"private": False, "gated": False, "disabled": False, "downloads": 0, "likes": 0}
            self._json({"id": name, "sha": repository.commit, **flags, "tags": [], "siblings": files})
        elif action == "tree":
            recursive = query.get("recursive", ["False"])[0].lower() in ("true", "1")
            self._json(_tree(repository, "/".join(rest[2:]), recursive=recursive))
        elif action == "paths-info":
            is_json = "json" in self.headers.get("Content-Type", "")
            wanted = (json.loads(body) if is_json else parse_qs(body.decode()))["paths"]
            everything = {item["path"]: item for item in _tree(repository, "", recursive=True)}
            self._json([everything[path] for path in wanted if path in everything])
        else:
            self._fail("EntryNotFound")

    def _resolve(self, kind: str, name: str, revision: str, path: str) -> None:
        repository = self._repository(kind, name, revision)
        if repository is None:
            return
        content = repository.files.get(path)
        if content is None:
            self._fail("EntryNotFound", repository.commit)
            return
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Repo-Commit": repository.commit,
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(int(last) + 1 if last else len(content), len(content))
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
            self._send(206, headers, content[start:stop])
        else:
            self._send(200, headers, content)

    def _json(self, value: Any) -> None:
        self._send(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def _fail(self, code: str, commit: str | None = None) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": code}
        if commit:
            headers["X-Repo-Commit"] = commit
        self._send(404, headers, json.dumps({"error": code}).encode())

    def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _tree(repository: Repository, below: str, *, recursive: bool) -> list[dict[str, Any]]:
    prefix = f"{below}/" if below else ""
    items: dict[str, dict[str, Any]] = {}
    for path, content in repository.files.items():
        if not path.startswith(prefix):
            continue
        rest = path.removeprefix(prefix).split("/")
        for depth in range(1, len(rest) if recursive else min(len(rest), 2)):
            folder = prefix + "/".join(rest[:depth])
            oid = hashlib.sha1(folder.encode()).hexdigest()
            items[folder] = {"type": "directory", "path": folder, "oid": oid, "size": 0}
        if len(rest) == 1 or recursive:
            oid = hashlib.sha1(content).hexdigest()
            items[path] = {"type": "file", "path": path, "oid": oid, "size": len(content)}
    return list(items.values())


def ask(client: str, environment: Mapping[str, str], *questions: list[Any]) -> list[Any]:
    """Run a client program in a new process and return its answers to questions, one JSON line each."""
    variables = {key: value for key, value in os.environ.items() if key != "SENTEMB_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", client],
        input="\n".join(json.dumps(question) for question in questions),
        env=variables | dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
