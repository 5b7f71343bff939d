"""The hub's real clients against a hub on the loopback, each in a process of its own."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sentemb.data.catalogue import get
from tests.data.loopback_hub import LoopbackHub, ask

# Runs `attempt` for each JSON line on standard input and answers with a value or the error's message.
CLIENT = """
import json, sys
from pathlib import Path
from sentemb.data.fetch import fetch
from sentemb.data.catalogue import get
from sentemb.data.labelled import load_labelled
from sentemb.data.locate import open_split
from sentemb.data.retrieval import load_retrieval
from sentemb.data.sources import describe_source, read_rows
from sentemb.data.sts import load_scored_pairs
from sentemb.errors import InputError

def attempt(verb, name, *rest):
    if verb == "read":
        return [row.values for row in read_rows(name, columns=rest[0] if rest else None)]
    if verb == "describe":
        return describe_source(name)
    if verb == "fetch":
        return str(fetch(name, Path(rest[0])))
    if verb == "judged":
        judged = load_retrieval(name, data_dir=rest[0] if rest else None)
        return [judged.documents, judged.queries, judged.judged.tolist()]
    if verb == "texts":
        return len(list(open_split(get(name), rest[0], None).rows))
    options = {"split": rest[0], "data_dir": rest[1] if rest[1:] else None}
    if verb == "labelled":
        data = load_labelled(name, **options)
        return [len(data), data.texts[1], data.pairs and data.pairs[1], data.label_names[data.labels[1]]]
    pairs = load_scored_pairs(name, **options)
    return [len(pairs), pairs.first[0], pairs.gold[0]]

for line in sys.stdin:
    try:
        answer = attempt(*json.loads(line))
    except InputError as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""


def scored(rows: int) -> bytes:
    lines = [json.dumps({"sentence1": f"a {n}", "sentence2": "b", "score": n / 500}) for n in range(rows)]
    return gzip.compress("\n".join(lines).encode())


def languages(**sizes: int) -> dict[str, bytes]:
    """Return a repository of several subsets, as MTEB keeps the pairs of SemEval-2022."""
    files, configs = {}, ""
    for name, size in sizes.items():
        pair = name.replace("_", "-")
        rows = [
            {"id": n, "score": 4 - n / 4, "sentence1": f"{pair} {n}", "sentence2": "b"} for n in range(size)
        ]
        files[f"test/{pair}.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
        configs += f"- config_name: {pair}\n  data_files:\n  - split: test\n    path: test/{pair}.jsonl\n"
    return files | {"README.md": f"---\nconfigs:\n{configs}---\n".encode()}


def parquet(columns: dict[str, list[Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def labelled(rows: int, label: int | None = None) -> bytes:
    labels = [number % 2 if label is None else label for number in range(rows)]
    texts = [f"t {number}" for number in range(rows)]
    return parquet({"sentence1": texts, "sentence2": ['"q'] * rows, "label": labels, "idx": labels})


def test_a_set_from_an_archive_is_unpacked_once(hub: LoopbackHub, tmp_path: Path, shared_data: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        for name in ("SICK", "TREC"):
            file.add(shared_data / f"senteval/downstream/{name}", f"./{name}")
    files = {"senteval.tar": packed.getvalue()}
    hub.add("datasets", "princeton-nlp/datasets-for-simcse", files, commit=get("sickr").revision)
    cache = tmp_path / "cache"
    asked = [["pairs", "sickr", split] for split in ("test", "dev")]
    answers = ask(CLIENT, hub.environment(cache), *asked, ["fetch", "sickr", str(tmp_path / "data")])
    assert [answer[0] for answer in answers[:2]] == [4927, 500]
    assert (tmp_path / "data/senteval/downstream/SICK/SICK_train.txt").is_file()
    (folder,) = cache.rglob("senteval/senteval/downstream")
    assert [path.name for path in folder.iterdir()] == ["SICK"]
    (archive,) = cache.rglob("senteval.tar")
    (folder / "SICK").rename(folder.parent / "gone")
    archive.unlink()
    archive.write_bytes(packed.getvalue()[:2000])
    (answer,) = ask(CLIENT, hub.environment(cache), asked[0])
    assert "senteval.tar is not a complete tar archive" in answer


def test_downloads_and_streams(hub: LoopbackHub, tmp_path: Path) -> None:
    stsb, news, rte, dbpedia = map(get, ("stsb", "sts22-fr-pl", "rte", "dbpedia"))
    files = {"validation.jsonl.gz": scored(1500), "test.jsonl.gz": scored(1377)}
    hub.add("datasets", str(stsb.hub_id), files, commit=stsb.revision)
    hub.add("datasets", str(news.hub_id), languages(fr_pl=8, de_pl=27), commit=news.revision)
    rows = {"train": labelled(2490), "validation": labelled(277), "test": labelled(3000, label=-1)}
    glue = {f"rte/{split}-00000-of-00001.parquet": content for split, content in rows.items()}
    glue["mrpc/validation-00000-of-00001.parquet"] = labelled(407)
    hub.add("datasets", "nyu-mll/glue", glue, commit=rte.revision)
    ontology = parquet({"label": [1] * 70_000, "title": ["T"] * 70_000, "content": ["C, a school"] * 70_000})
    files = {"dbpedia_14/test-00000-of-00001.parquet": ontology}
    hub.add("datasets", "fancyzhx/dbpedia_14", files, commit=dbpedia.revision)
    reviews = {"plain_text/test-00000-of-00001.parquet": parquet({"text": ["a", "b"], "label": [0, 2]})}
    hub.add("datasets", "fancyzhx/yelp_polarity", reviews)
    mine = hub.add("datasets", "me/texts", {"train.jsonl": b'{"text": "a", "n": 1}\n{"text": "b", "n": 2}\n'})
    hub.add("datasets", "me/script", {"script.py": b"raise SystemExit('ran')", "a.txt": b"a"})
    hub.add("datasets", "me/bare", {"notes.md": b"nothing here"})
    hub.add("datasets", "me/splits", {"test.csv": b"text\na\n", "validation.csv": b"text\nb\n"})
    folder = tmp_path / "data"
    described = {"source": "me/texts", "hub_id": "me/texts", "revision": mine.commit, "files": []}
    expected: list[tuple[list[Any], Any]] = [
        (["pairs", "stsb", "dev"], [1500, "a 0", 0.0]),
        (["pairs", "stsb", "test"], "has 1,377 rows instead of 1,379: 2 missing"),
        (["pairs", "stsb", "train"], f"sts at {stsb.revision} does not contain the file for stsb"),
        (["pairs", "sts12", "test"], f"data set mteb/sts12-sts not found at {hub.endpoint}"),
        (["read", "me/texts"], [{"text": "a", "n": 1}, {"text": "b", "n": 2}]),
        (["read", f"me/texts@{mine.commit}", ["text"]], [{"text": "a"}, {"text": "b"}]),
        (["read", "me/texts", ["texts"]], "a column 'texts'; its columns are text, n; did you mean 'text'?"),
        (["read", "me/texts@" + "0" * 40], "me/texts does not have a revision 000"),
        (["read", "me/none"], f"data set me/none not found at {hub.endpoint}"),
        (["read", "me/splits"], "me/splits does not have a split 'train', only "),
        (["read", "me/script"], "me/script cannot be read: Dataset scripts are no longer supported"),
        (["read", "me/bare"], "me/bare cannot be read: "),
        (["describe", "me/texts"], described),
        (["pairs", "sts22-fr-pl", "test"], [8, "fr-pl 0", 4.0]),
        (["fetch", "sts22-fr-pl", str(folder)], str(folder / "sts22-fr-pl")),
        (["pairs", "sts22-fr-pl", "test", str(folder)], [8, "fr-pl 0", 4.0]),
        (["fetch", "sts22-de-pl", str(folder)], "has 27 rows instead of 28: 1 missing"),
        (["pairs", "sts22-es-it", "test"], "cannot be read: BuilderConfig 'es-it' not found"),
        (["labelled", "dbpedia", "test"], [70_000, "C, a school", None, "EducationalInstitution"]),
        (["labelled", "dbpedia", "train"], f"{dbpedia.revision} does not contain the file for dbpedia"),
        (["labelled", "yelp", "test"], "parquet:2: '2' is not a label of yelp; its labels are negative"),
        (["labelled", "rte", "dev"], [277, "t 1", '"q', "not_entailment"]),
        (["labelled", "rte", "test"], "the labels of rte test are not published; use one of train, dev"),
        (["texts", "rte", "test"], 3000),
        (["labelled", "mrpc", "dev"], "has 407 rows instead of 408: 1 missing"),
        (["fetch", "rte", str(folder)], str(folder / "rte")),
        (["labelled", "rte", "dev", str(folder)], [277, "t 1", '"q', "not_entailment"]),
    ]
    answers = ask(CLIENT, hub.environment(tmp_path), *(question for question, _ in expected))
    for answer, (question, part) in zip(answers, expected, strict=True):
        assert part in answer if isinstance(part, str) else part == answer, question
    assert sorted(path.name for path in folder.iterdir()) == ["rte", "sts22-fr-pl"]
    assert len([*folder.rglob("*.parquet")]) == 3
    assert f"GET /datasets/mteb/stsbenchmark-sts/resolve/{stsb.revision}/validation.jsonl.gz" in hub.requests

    before = len(hub.requests)
    questions = [["pairs", "stsb", "dev"], ["pairs", "sts13", "test"], ["read", "me/other"]]
    offline = ask(CLIENT, hub.environment(tmp_path) | {"HF_HUB_OFFLINE": "1"}, *questions)
    assert offline[0] == [1500, "a 0", 0.0]  # a pinned commit that was downloaded needs no network
    message = "from the hub, but HF_HUB_OFFLINE is set; unset HF_HUB_OFFLINE"
    assert all(message in text for text in offline[1:]) and len(hub.requests) == before


def test_a_retrieval_set_is_fetched_with_its_documents(hub: LoopbackHub, tmp_path: Path) -> None:
    rows = {
        "corpus.jsonl": {"_id": "d1", "title": "A", "text": "cat"},
        "queries.jsonl": {"_id": "q1", "text": "what"},
        "qrels/test.jsonl": {"query-id": "q1", "corpus-id": "d1", "score": 2},
    }
    files = {name: json.dumps(row).encode() for name, row in rows.items()}
    hub.add("datasets", "mteb/scidocs", files, commit=get("scidocs").revision)
    folder = str(tmp_path / "data")
    questions = [["judged", "scidocs"], ["fetch", "scidocs", folder], ["judged", "scidocs", folder]]
    answers = ask(CLIENT, hub.environment(tmp_path), *questions)
    assert answers == [expected := [["A cat"], ["what"], [[0, 0, 2]]], f"{folder}/scidocs", expected]


@pytest.mark.parametrize("name", ["sts14", "me/texts"])
def test_a_hub_out_of_reach_is_one_line_at_once(hub: LoopbackHub, tmp_path: Path, name: str) -> None:
    environment = hub.environment(tmp_path) | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    question = ["read", name] if "/" in name else ["pairs", name, "test"]
    (answer,) = ask(CLIENT, environment, question)
    assert "but http://127.0.0.1:9 cannot be reached" in answer
    assert "--data-dir, SENTEMB_DATA" in answer
