"""The hub's real clients against a hub on the loopback, each in a process of its own."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sentemb.data.catalogue import get
from tests.data.loopback_hub import LoopbackHub, ask

# Runs `attempt` for each JSON line on standard input and answers with a value or the error's message.
CLIENT = """
import json, sys
from pathlib import Path
from sentemb.data.fetch import fetch
from sentemb.data.sources import describe_source
from sentemb.data.retrieval import load_retrieval
from sentemb.data.sts import load_scored_pairs
from sentemb.data.sources import read_rows
from sentemb.errors import InputError
for line in sys.stdin:
    verb, *arguments = json.loads(line)
    try:
        if verb == "read":
            answer = [record.values for record in read_rows(*arguments)]
        elif verb == "describe":
            answer = describe_source(*arguments)
        elif verb == "fetch":
            answer = str(fetch(arguments[0], Path(arguments[1])))
        elif verb == "judged":
            judged = load_retrieval(arguments[0], data_dir=(arguments[1:] or [None])[0])
            answer = [judged.documents, judged.queries, judged.judged.tolist()]
        elif verb == "columns":
            answer = [record.values for record in read_rows(arguments[0], columns=arguments[1])]
        else:
            pairs = load_scored_pairs(arguments[0], split=arguments[1], data_dir=(arguments[2:] or [None])[0])
            answer = [len(pairs), pairs.first[0], pairs.gold[0]]
    except InputError as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""


def benchmark(rows: int) -> bytes:
    lines = [json.dumps({"sentence1": f"a {n}", "sentence2": "b", "score": n / 500}) for n in range(rows)]
    return gzip.compress("\n".join(lines).encode())


def languages(**sizes: int) -> dict[str, bytes]:
    """A repository of several subsets, as MTEB keeps the pairs of SemEval-2022."""
    files, configs = {}, ""
    for name, size in sizes.items():
        pair = name.replace("_", "-")
        rows = [
            {"id": n, "score": 4 - n / 4, "sentence1": f"{pair} {n}", "sentence2": "b"} for n in range(size)
        ]
        files[f"test/{pair}.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
        configs += f"- config_name: {pair}\n  data_files:\n  - split: test\n    path: test/{pair}.jsonl\n"
    return files | {"README.md": f"---\nconfigs:\n{configs}---\n".encode()}


def test_a_set_from_an_archive_is_unpacked_once(hub: LoopbackHub, tmp_path: Path, shared_data: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        file.add(shared_data / "senteval/downstream/SICK", "./SICK")
        file.add(shared_data / "senteval/downstream/TREC", "./TREC")
    repository = "princeton-nlp/datasets-for-simcse"
    hub.add("datasets", repository, {"senteval.tar": packed.getvalue()}, commit=get("sickr").revision)
    cache = tmp_path / "cache"
    asked = [["pairs", "sickr", split] for split in ("test", "dev")]
    answers = ask(CLIENT, hub.environment(cache), *asked)
    assert [answer[0] for answer in answers] == [4927, 500]
    (folder,) = cache.rglob("senteval/senteval/downstream")
    assert [path.name for path in folder.iterdir()] == ["SICK"]
    (archive,) = cache.rglob("senteval.tar")
    (folder / "SICK").rename(folder.parent / "gone")
    archive.unlink()
    archive.write_bytes(packed.getvalue()[:2000])
    (answer,) = ask(CLIENT, hub.environment(cache), asked[0])
    assert "senteval.tar is not a complete tar archive" in answer


def test_downloads_and_streams(hub: LoopbackHub, tmp_path: Path) -> None:
    entry = get("stsb")
    files = {"validation.jsonl.gz": benchmark(1500), "test.jsonl.gz": benchmark(1377)}
    hub.add("datasets", str(entry.hub_id), files, commit=entry.revision)
    mine = hub.add("datasets", "me/texts", {"train.jsonl": b'{"text": "a", "n": 1}\n{"text": "b", "n": 2}\n'})
    hub.add("datasets", "me/script", {"script.py": b"raise SystemExit('ran')", "a.txt": b"a"})
    hub.add("datasets", "me/bare", {"notes.md": b"nothing here"})
    news = get("sts22-fr-pl")
    hub.add("datasets", str(news.hub_id), languages(fr_pl=8, de_pl=27), commit=news.revision)
    folder = tmp_path / "data"
    hub.add("datasets", "me/splits", {"test.csv": b"text\na\n", "validation.csv": b"text\nb\n"})
    answers = ask(
        CLIENT,
        hub.environment(tmp_path),
        ["pairs", "stsb", "dev"],
        ["pairs", "stsb", "test"],
        ["pairs", "stsb", "train"],
        ["pairs", "sts12", "test"],
        ["read", "me/texts"],
        ["columns", f"me/texts@{mine.commit}", ["text"]],
        ["columns", "me/texts", ["texts"]],
        ["read", "me/texts@" + "0" * 40],
        ["read", "me/none"],
        ["read", "me/splits"],
        ["read", "me/script"],
        ["read", "me/bare"],
        ["describe", "me/texts"],
        ["pairs", "sts22-fr-pl", "test"],
        ["fetch", "sts22-fr-pl", str(folder)],
        ["pairs", "sts22-fr-pl", "test", str(folder)],
        ["fetch", "sts22-de-pl", str(folder)],
        ["pairs", "sts22-es-it", "test"],
    )
    assert answers[0] == [1500, "a 0", 0.0]
    assert "has 1,377 rows instead of 1,379: 2 missing" in answers[1]
    assert f"mteb/stsbenchmark-sts at {entry.revision} does not contain the file for stsb" in answers[2]
    assert f"data set mteb/sts12-sts not found at {hub.endpoint}" in answers[3]
    assert answers[4] == [{"text": "a", "n": 1}, {"text": "b", "n": 2}]
    assert answers[5] == [{"text": "a"}, {"text": "b"}]
    assert (
        "me/texts does not have a column 'texts'; its columns are text, n; did you mean 'text'?" in answers[6]
    )
    assert "me/texts does not have a revision 000" in answers[7]
    assert f"data set me/none not found at {hub.endpoint}" in answers[8]
    assert "me/splits does not have a split 'train', only " in answers[9]
    assert "me/script cannot be read: Dataset scripts are no longer supported" in answers[10]
    assert "me/bare cannot be read: " in answers[11]
    assert answers[12] == {"source": "me/texts", "hub_id": "me/texts", "revision": mine.commit, "files": []}
    assert answers[13] == answers[15] == [8, "fr-pl 0", 4.0]
    assert answers[14] == str(folder / "sts22-fr-pl")
    assert "has 27 rows instead of 28: 1 missing" in answers[16]
    assert [path.name for path in folder.iterdir()] == ["sts22-fr-pl"]
    assert "cannot be read: BuilderConfig 'es-it' not found" in answers[17]
    assert f"GET /datasets/mteb/stsbenchmark-sts/resolve/{entry.revision}/validation.jsonl.gz" in hub.requests

    before = len(hub.requests)
    offline = ask(
        CLIENT,
        hub.environment(tmp_path) | {"HF_HUB_OFFLINE": "1"},
        ["pairs", "stsb", "dev"],
        ["pairs", "sts13", "test"],
        ["read", "me/other"],
    )
    assert offline[0] == [1500, "a 0", 0.0]  # a pinned commit that was downloaded needs no network
    assert all(
        "from the hub, but HF_HUB_OFFLINE is set; unset HF_HUB_OFFLINE" in text for text in offline[1:]
    )
    assert len(hub.requests) == before


def test_a_retrieval_set_is_fetched_with_its_documents(hub: LoopbackHub, tmp_path: Path) -> None:
    rows = {
        "corpus.jsonl": {"_id": "d1", "title": "A", "text": "cat"},
        "queries.jsonl": {"_id": "q1", "text": "what"},
        "qrels/test.jsonl": {"query-id": "q1", "corpus-id": "d1", "score": 2},
    }
    files = {name: json.dumps(row).encode() for name, row in rows.items()}
    hub.add("datasets", "mteb/scidocs", files, commit=get("scidocs").revision)
    folder = tmp_path / "data"
    answers = ask(
        CLIENT,
        hub.environment(tmp_path),
        ["judged", "scidocs"],
        ["fetch", "scidocs", str(folder)],
        ["judged", "scidocs", str(folder)],
    )
    assert answers == [expected := [["A cat"], ["what"], [[0, 0, 2]]], str(folder / "scidocs"), expected]


@pytest.mark.parametrize("name", ["sts14", "me/texts"])
def test_a_hub_out_of_reach_is_one_line_at_once(hub: LoopbackHub, tmp_path: Path, name: str) -> None:
    environment = hub.environment(tmp_path) | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    question = ["read", name] if "/" in name else ["pairs", name, "test"]
    (answer,) = ask(CLIENT, environment, question)
    assert "but http://127.0.0.1:9 cannot be reached" in answer
    assert "--data-dir, SENTEMB_DATA" in answer


def test_the_loopback_hub_serves_models_too(hub: LoopbackHub, tmp_path: Path, tiny_bert: Path) -> None:
    """Other rooms load encoders by hub id from it."""
    hub.add("models", "me/encoder", tiny_bert)
    code = "from huggingface_hub import snapshot_download; print(snapshot_download('me/encoder'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | hub.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    copy = Path(done.stdout.strip())
    names = sorted(path.name for path in tiny_bert.iterdir())
    assert sorted(path.name for path in copy.iterdir()) == names
    assert all((copy / name).read_bytes() == (tiny_bert / name).read_bytes() for name in names)
