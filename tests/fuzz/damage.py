"""Strategies that damage a valid file: as bytes, as lines, or in its structure where it is JSON or TOML."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

ODD_TEXT = st.sampled_from(
    [
        "", " ", "\t", ";", ",", '"', "'", "null", "NaN", "-1", "0", "1e400", "9" * 400, "\x00", "\x1b[2J",
        "\u202eabc", "\ufeff", "\ud7ff", "é" * 300, "a" * 5000, "../../x", "/", "\\", "{}", "[]", "%s%n", "=",
        "1,5", "True", "a\rb", "a\u2028b", "😀",
    ]
)  # fmt: skip
_ODD_BYTES = st.sampled_from(
    [
        b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b'"', b"{", b"\x1f\x8b", b"PK\x03\x04",
        b"\x80" * 9,
    ]
)  # fmt: skip
_NUMBERS = (0, -1, 1, 2**31, 2**63, 10**30, -(10**9), 0.5, 1e-320, 1e308)
_ODD_VALUE: st.SearchStrategy[Any] = st.one_of(
    ODD_TEXT,
    st.sampled_from([None, True, False, *_NUMBERS, [], {}, [[]], [None]]),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    st.integers(-3, 3),
    st.text(max_size=8),
)


def damaged(name: str, content: bytes) -> st.SearchStrategy[tuple[str, bytes]]:
    """Return a strategy of descriptions of damage to a file with the damaged content."""
    ways = [_cut(content), _bytes(content), _random(content)]
    if name.endswith((".json", ".toml", ".jsonl", ".csv", ".tsv", ".txt")):
        ways += [_lines(content), _tokens(content), _wholes(content)]
    if name.endswith(".json"):
        ways += [_structure(json.loads(content), json.dumps)] * 4
    if name.endswith(".jsonl"):
        ways += [_json_line(content)] * 3
    return st.one_of(ways)


def _cut(content: bytes) -> st.SearchStrategy[tuple[str, bytes]]:
    return st.integers(0, max(0, len(content) - 1)).map(lambda end: (f"cut at {end}", content[:end]))


def _bytes(content: bytes) -> st.SearchStrategy[tuple[str, bytes]]:
    def insert(place: int, odd: bytes, over: int) -> tuple[str, bytes]:
        return f"{odd!r} at {place} over {over}", content[:place] + odd + content[place + over :]

    return st.builds(insert, st.integers(0, len(content)), _ODD_BYTES, st.integers(0, 12))


def _random(content: bytes) -> st.SearchStrategy[tuple[str, bytes]]:
    def change(places: list[tuple[int, int]]) -> tuple[str, bytes]:
        changed = bytearray(content or b"\0")
        for place, value in places:
            changed[place % len(changed)] = value
        return f"bytes changed: {places}", bytes(changed)

    places = st.tuples(st.integers(0, max(0, len(content) - 1)), st.integers(0, 255))
    return st.one_of(
        st.lists(places, min_size=1, max_size=4).map(change),
        st.binary(max_size=64).map(lambda other: (f"replaced by {other!r}", other)),
    )


def _wholes(content: bytes) -> st.SearchStrategy[tuple[str, bytes]]:
    text = content.decode()
    wholes: dict[str, Callable[[], bytes]] = {
        "empty": lambda: b"",
        "blank": lambda: b"\n \n\n",
        "CRLF": lambda: text.replace("\n", "\r\n").encode(),
        "UTF-16": lambda: text.encode("utf-16"),
        "Latin-1": lambda: f"{text}caf\xe9\n".encode("latin-1", errors="replace"),
        "byte order mark": lambda: text.encode("utf-8-sig"),
        "no last newline": lambda: content.rstrip(b"\n"),
        "gzip": lambda: gzip.compress(content, mtime=0),
        "nested": lambda: b"[" * 100_000,
        "nested objects": lambda: b'{"a":' * 100_000,
        "nested in a table": lambda: b"a = " + b"[" * 20_000,
        "one long line": lambda: content.replace(b"\n", b" ") * 200,
        "twice": lambda: content * 2,
        "tabs to semicolons": lambda: content.replace(b"\t", b";"),
        "commas to semicolons": lambda: content.replace(b",", b";"),
        "commas to tabs": lambda: content.replace(b",", b"\t"),
        "no header": lambda: content.partition(b"\n")[2],
        "header only": lambda: content.partition(b"\n")[0],
    }
    return st.sampled_from(sorted(wholes)).map(lambda name: (name, wholes[name]()))


def _lines(content: bytes) -> st.SearchStrategy[tuple[str, bytes]]:
    lines = content.decode().splitlines(keepends=True) or [""]

    def change(number: int, odd: str, way: str) -> tuple[str, bytes]:
        changed = list(lines)
        changed[number : number + 1] = {
            "delete": [],
            "repeat": [lines[number]] * 2,
            "replace": [f"{odd}\n"],
            "insert": [f"{odd}\n", lines[number]],
            "append": [f"{lines[number].rstrip()}{odd}\n"],
        }[way]
        return f"{way} line {number + 1}: {odd!r}", "".join(changed).encode()

    ways = st.sampled_from(["delete", "repeat", "replace", "insert", "append"])
    return st.builds(change, st.integers(0, len(lines) - 1), ODD_TEXT, ways)


def _tokens(content: bytes) -> st.SearchStrategy[tuple[str, bytes]]:
    text = content.decode()
    spans = [found.span() for found in re.finditer(r"[^\s,;:\"'{}\[\]=]+", text)] or [(0, 0)]

    def change(span: tuple[int, int], odd: str) -> tuple[str, bytes]:
        return f"{text[slice(*span)]!r} to {odd!r}", (text[: span[0]] + odd + text[span[1] :]).encode()

    return st.builds(change, st.sampled_from(spans), ODD_TEXT)


def _json_line(content: bytes) -> st.SearchStrategy[tuple[str, bytes]]:
    lines = content.decode().splitlines()

    def at(number: int) -> st.SearchStrategy[tuple[str, bytes]]:
        def placed(change: tuple[str, bytes]) -> tuple[str, bytes]:
            changed = [*lines[:number], change[1].decode(), *lines[number + 1 :], ""]
            return f"line {number + 1}: {change[0]}", "\n".join(changed).encode()

        return _structure(json.loads(lines[number]), json.dumps).map(placed)

    return st.integers(0, len(lines) - 1).flatmap(at)


def _structure(value: Any, write: Callable[[Any], str]) -> st.SearchStrategy[tuple[str, bytes]]:
    paths = [*_paths(value)] or [()]

    def change(path: tuple[Any, ...], odd: Any, way: str) -> tuple[str, bytes]:
        copy = json.loads(json.dumps(value))
        if not path:
            return f"all to {odd!r}", write(odd).encode()
        inside = copy
        for key in path[:-1]:
            inside = inside[key]
        if way == "remove":
            del inside[path[-1]]
        elif way == "add" and isinstance(inside, dict):
            inside[f"{path[-1]}x"] = odd
        else:
            inside[path[-1]] = odd
        return f"{way} {'.'.join(map(str, path))}: {odd!r}", write(copy).encode()

    ways = st.sampled_from(["set", "set", "set", "remove", "add"])
    return st.builds(change, st.sampled_from(paths), _ODD_VALUE, ways)


def _paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [before, *(path for key, part in inner for path in _paths(part, (*before, key)))]
