"""Labelled sets from the hub, through its real clients against a hub on the loopback."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentemb.data.catalogue import get
from tests.data.loopback_hub import LoopbackHub, ask

CLIENT = """
import json, sys
from pathlib import Path
from sentemb.data.fetch import fetch
from sentemb.data.labelled import load_labelled, load_unlabelled
from sentemb.errors import InputError
for line in sys.stdin:
    verb, name, *rest = json.loads(line)
    try:
        if verb == "fetch":
            answer = sorted(str(path.relative_to(rest[0])) for path in fetch(name, Path(rest[0])).path.rglob("*.parquet"))
        elif verb == "texts":
            answer = len(load_unlabelled(name, split=rest[0]))
        else:
            data = load_labelled(name, split=rest[0], data_dir=rest[1] if rest[1:] else None)
            answer = [len(data), data.texts[1], data.pairs and data.pairs[1], data.label_names[data.labels[1]]]
    except InputError as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""  # noqa: E501


def parquet(columns: dict[str, list[Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def pairs(rows: int, label: int | None = None) -> bytes:
    labels = [number % 2 if label is None else label for number in range(rows)]
    texts = [f"t {number}" for number in range(rows)]
    return parquet({"sentence1": texts, "sentence2": ['"q'] * rows, "label": labels, "idx": labels})


def test_sets_by_hub_id(hub: LoopbackHub, tmp_path: Path) -> None:
    ontology = {"label": [1] * 70_000, "title": ["T"] * 70_000, "content": ["C, a school"] * 70_000}
    hub.add(
        "datasets",
        "fancyzhx/dbpedia_14",
        {"dbpedia_14/test-00000-of-00001.parquet": parquet(ontology)},
        commit=get("dbpedia").revision,
    )
    hub.add(
        "datasets",
        "fancyzhx/yelp_polarity",
        {"plain_text/test-00000-of-00001.parquet": parquet({"text": ["a", "b"], "label": [0, 2]})},
    )
    hub.add(
        "datasets",
        "nyu-mll/glue",
        {
            "rte/train-00000-of-00001.parquet": pairs(2490),
            "rte/validation-00000-of-00001.parquet": pairs(277),
            "rte/test-00000-of-00001.parquet": pairs(3000, label=-1),
            "mrpc/validation-00000-of-00001.parquet": pairs(407),
        },
        commit=get("rte").revision,
    )
    folder = str(tmp_path / "data")
    answers = ask(
        CLIENT,
        hub.environment(tmp_path / "cache"),
        ["labelled", "dbpedia", "test"],
        ["labelled", "dbpedia", "train"],
        ["labelled", "yelp", "test"],
        ["labelled", "rte", "dev"],
        ["labelled", "rte", "test"],
        ["texts", "rte", "test"],
        ["labelled", "mrpc", "dev"],
        ["fetch", "rte", folder],
        ["labelled", "rte", "dev", folder],
    )
    assert answers[0] == [70_000, "C, a school", None, "EducationalInstitution"]
    assert (
        f"fancyzhx/dbpedia_14 at {get('dbpedia').revision} does not contain the file for dbpedia"
        in answers[1]
    )
    assert "test-00000-of-00001.parquet:2: '2' is not a label of yelp; its labels are negative" in answers[2]
    assert answers[3] == [277, "t 1", '"q', "not_entailment"]
    assert "the labels of rte test are not published; use one of train, dev" in answers[4]
    assert answers[5] == 3000
    assert "has 407 rows instead of 408: 1 missing" in answers[6]
    assert len(answers[7]) == 3 and answers[7][0] == "rte/rte/test-00000-of-00001.parquet"
    assert answers[8] == answers[3]
