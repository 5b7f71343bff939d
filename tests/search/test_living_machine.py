"""Any sequence of changes, kills and reopenings answers as brute force does.

`SENTEMB_SEQUENCES` sequences are tried, 20 by default and always the same; with the variable they are random.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sentemb.errors import InputError
from sentemb.search import Hit, SearchIndex
from tests.search.bag_of_words import FewWords
from tests.search.living_model import Model
from tests.search.others import Forks, Reader

SEQUENCES = int(os.environ.get("SENTEMB_SEQUENCES", "20"))
# Every change waits for the disk, which is not what is tested.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
DIMENSION = FewWords().dimension

QUERIES = [("w1 w2", 3), ("w7", 1), ("w3 w11", 50), ("w1 w30", 2)]

words = st.integers(0, 30).map(lambda number: f"w{number}")
texts = st.lists(words, min_size=1, max_size=5).map(" ".join) | st.sampled_from(["w1", "w1 w2", " "])
ids = st.integers(0, 12) | st.sampled_from(["1", "a", "b", "ÿ", ""])
rows = st.lists(
    st.tuples(ids, texts, st.sampled_from([{}, {"year": 1999}, {"year": 2001}])),
    max_size=6,
    unique_by=lambda row: (type(row[0]), row[0]),
)
some_ids = st.lists(ids, max_size=8)


@pytest.fixture(scope="module", autouse=True)
def _forks() -> Iterator[None]:
    Living.forks, Living.patient = Forks(), Reader()
    yield
    Living.forks.close()
    Living.patient.close()


class Living(RuleBasedStateMachine):
    """A writer, two readers, and other writers that are killed.

    One reader is in another process and keeps the index open that it has opened at the beginning; the other
    is opened again now and then.
    """

    forks: Forks
    patient: Reader

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="sentemb-living-", dir=MEMORY))
        self.folder = self.root / "index"
        self.model = Model()
        self.kills = self.steps = 0

    @initialize(
        given=st.lists(texts.filter(str.strip), min_size=1, max_size=12),
        kind=st.sampled_from(["flat", "hnsw"]),
        in_memory=st.booleans(),
    )
    def build(self, given: list[str], kind: str, in_memory: bool) -> None:
        index = SearchIndex.build(given, FewWords(), kind=kind)
        self.model.put((number, text, {}) for number, text in enumerate(given))
        if in_memory:  # it is changed before it is saved
            index.delete([0])
            self.model.drop([0])
        index.save(self.folder)
        self.index = self.open()
        self.reader = self.open()
        self.patient.open(self.folder)

    def open(self) -> SearchIndex:
        return SearchIndex.load(self.folder, FewWords())

    @rule(rows=rows, ready=st.none() | st.integers(0, 99), truncate=st.sampled_from([None, "warn"]))
    def update(self, rows: list, ready: int | None, truncate: Any) -> None:
        vectors = None
        if ready is not None:
            vectors = np.random.default_rng(ready).standard_normal((len(rows), DIMENSION))
        known = {key for key, text, _ in rows if key in self.model.documents and text.strip()}
        done = self.index.update(rows, vectors, truncate=truncate)
        assert done.replaced == len(known) and sum(done[:3]) == len(rows)
        self.model.put(rows, vectors, truncate or "split")
        self.check_files()

    @rule(rows=rows)
    def add(self, rows: list) -> None:
        if any(key in self.model.documents and text.strip() for key, text, _ in rows):
            with pytest.raises(InputError, match="already in the index"):
                self.index.add(rows)
            return
        rows = [row for row in rows if row[1].strip()]
        long = sum(len(text.split()) > 2 for _, text, _ in rows)
        assert self.index.add(rows) == (len(rows), 0, 0, long, 0)
        self.model.put(rows)

    @rule(given=st.lists(texts.filter(str.strip), min_size=1, max_size=4))
    def add_without_ids(self, given: list[str]) -> None:
        self.index.add(given)
        first = self.model.next_id
        self.model.put((number, text, {}) for number, text in enumerate(given, first))

    @rule(ids=some_ids)
    def delete(self, ids: list) -> None:
        assert self.index.delete(ids) == self.model.drop(ids)
        self.check_files()

    @rule()
    def compact(self) -> None:
        self.index.compact()
        self.check_files()

    @rule()
    def reopen(self) -> None:
        self.index = self.open()

    @rule()
    def reopen_reader(self) -> None:
        self.reader = self.open()

    @rule()
    def save_elsewhere(self) -> None:
        self.index.save(self.root / "copy", overwrite=True)
        assert self.model.is_that_of(SearchIndex.load(self.root / "copy", FewWords()))

    @rule(
        how=st.sampled_from(["add", "update", "delete", "compact"]),
        rows=rows,
        ids=some_ids,
        seed=st.integers(0, 999),
    )
    def kill(self, how: str, rows: list, ids: list, seed: int) -> None:
        new = self.model.copy()
        if how in ("add", "update"):  # with metadata that say whether it was done
            self.kills += 1
            known = self.model.documents if how == "add" else ()
            rows = [(key, text, {"kill": self.kills}) for key, text, _ in rows if key not in known]
            # A blank document that is not there leaves nothing to see but the next id.
            rows = [row for row in rows if row[1].strip() or row[0] in self.model.documents]
            new.put(rows)
        elif how == "delete":
            new.drop(ids)
        what = rows if how in ("add", "update") else ids
        end = time.monotonic() + random.Random(seed).uniform(0, 0.03)
        process = self.forks.begin(how, self.folder, what)
        while time.monotonic() < end:
            self.answers_of_one(self.patient.search("w1 w3", 9), [self.model, new])
        self.forks.end(process)
        seen = self.open()
        self.model = next(model for model in (new, self.model) if model.is_that_of(seen))

    @precondition(lambda self: hasattr(self, "index"))
    @invariant()
    def answers(self) -> None:
        for index in (self.index, self.reader, self.patient):
            self.steps += 1
            assert index.count() == len(self.model.documents)
        split = sum(len(passages) > 1 for passages in self.model.passages.values())
        vectors = sum(map(len, self.model.vectors.values()))
        assert self.reader.manifest.chunked == split and self.reader.manifest.vectors == vectors
        for index in (self.index, self.reader, self.patient):
            self.model.check(index, *QUERIES[self.steps % 4], self.steps)
        assert self.model.is_that_of((self.reader, self.patient)[self.steps % 2])

    def answers_of_one(self, hits: list[Hit], models: list[Model]) -> None:
        """A search during a change finds the state before it or the one after it."""
        errors = []
        for model in models:
            try:
                return model.check_vectors(hits, "w1 w3", 9)
            except (AssertionError, KeyError) as error:
                errors.append(error)
        raise errors[0]

    def check_files(self) -> None:
        """Nothing is left of writers that were killed."""
        names = [path.name for path in self.folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]
        kinds = sorted(name.split("-")[0] for name in names)
        assert kinds in (["index", "manifest.json", "vectors"], ["index", "manifest.json"])

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


Living.TestCase.settings = settings(
    max_examples=SEQUENCES,
    derandomize="SENTEMB_SEQUENCES" not in os.environ,
    database=None,
    stateful_step_count=20,
    phases=[Phase.generate],  # kills are not repeated at the same moment
    suppress_health_check=list(HealthCheck),
)
TestLiving = Living.TestCase
