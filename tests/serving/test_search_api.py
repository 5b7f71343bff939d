"""Searches, changes and descriptions over HTTP match those of the library."""

from __future__ import annotations

import dataclasses
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sentemb.errors import InputError
from sentemb.search import SearchIndex
from sentemb.serving.app import create_app
from sentemb.serving.page import page
from sentemb.serving.settings import Settings
from tests.serving.conftest import TEXTS
from tests.serving.models import client_of

ROUTE = "/v1/indexes/animals"


@pytest.fixture
def folder(animals: Path, tmp_path: Path) -> Path:
    """A copy of the index to change."""
    return Path(shutil.copytree(animals, tmp_path / "animals"))


@pytest.fixture(scope="module")
def client(animals: Path) -> Iterator[TestClient]:
    """A client for requests that do not change anything."""
    with client_of(indexes=(animals,)) as found:
        yield found
        assert found.get(f"{ROUTE}/stats").json()["documents"] == len(TEXTS)


@pytest.fixture
def writer(folder: Path) -> Iterator[TestClient]:
    with client_of(indexes=(folder,)) as found:
        yield found


@pytest.mark.parametrize("mode", ["dense", "keyword", "hybrid"])
def test_hits_are_the_librarys(mode: Any, client: TestClient, animals: Path) -> None:
    where = {"year": {">=": 2010}}
    asked = {"query": TEXTS[12], "k": 5, "mode": mode, "where": where, "text": True}
    hits = client.post(f"{ROUTE}/search", json=asked).json()["hits"]
    expected = SearchIndex.load(animals).search(TEXTS[12], 5, mode=mode, where=where)
    assert [(hit["id"], hit["text"], hit["metadata"]) for hit in hits] == [
        (hit.id, hit.text, hit.metadata) for hit in expected
    ]
    assert [hit["score"] for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-6)


def test_an_index_is_not_served_with_vectors_of_another_precision(folder: Path) -> None:
    index = SearchIndex.load(folder)
    facts = index.manifest.encoder
    details = {**facts.details, "precision": "bfloat16 linear layers"}
    index.store.keep(encoder=dataclasses.replace(facts, details=details))
    reason = f"built with bfloat16 linear layers, and {facts.name} is served with float32"
    with pytest.raises(InputError, match=reason):
        create_app(Settings(models=(facts.name,), indexes=(folder,)))


def test_a_search_may_abstain(writer: TestClient, folder: Path) -> None:
    asked: dict[str, Any] = {"query": TEXTS[12], "k": 3, "abstain": True}
    refused = writer.post(f"{ROUTE}/search", json=asked)
    assert refused.status_code == 409 and "index is not calibrated to abstain" in refused.json()["detail"]
    assert writer.get(f"{ROUTE}/stats").json()["can_abstain"] is False
    index = SearchIndex.load(folder)
    index.calibrate([f"an unknown thing {number}" for number in range(19)], [[]] * 19)
    assert writer.get(f"{ROUTE}/stats").json()["can_abstain"] is True
    for query, count in ((TEXTS[12], 3), ("tariffs of a bank", 0)):
        answer = writer.post(f"{ROUTE}/search", json=asked | {"query": query}).json()
        hits = index.search(query, 3, abstain=True)
        assert [hit["p_value"] for hit in answer["hits"]] == [hit.p_value for hit in hits]
        assert len(hits) == count and answer["reason"] == hits.reason and bool(hits.reason) is (count == 0)


def test_function_words_are_not_marked(client: TestClient) -> None:
    for mode in ("dense", "keyword"):
        asked = {"query": "the cat of IT in a", "k": 1, "mode": mode, "where": {"year": 2031}}
        (hit,) = client.post(f"{ROUTE}/search", json=asked).json()["hits"]
        text, spans = hit["snippet"]["text"], hit["snippet"]["spans"]
        assert [text[start:stop] for start, stop in spans] == ["cat", "IT", "it"]


def test_changes_are_in_the_folder_once_they_are_answered(writer: TestClient, folder: Path) -> None:
    new = {"documents": [{"id": "new", "text": "a zebra in the garden", "metadata": {"year": 1999}}]}
    assert writer.post(f"{ROUTE}/documents", json=new).json()["added"] == 1
    assert SearchIndex.load(folder).search("zebra", 1)[0].id == "new"
    assert writer.post(f"{ROUTE}/documents", json=new).status_code == 409
    new["documents"][0]["text"] = "a tapir in the garden"
    assert writer.put(f"{ROUTE}/documents", json=new).json()["replaced"] == 1
    stored = writer.get(f"{ROUTE}/documents", params={"id": ["new", "none", "3"]}).json()["documents"]
    assert [one and one["text"] for one in stored] == ["a tapir in the garden", None, TEXTS[3]]
    similar = writer.post(f"{ROUTE}/similar", json={"id": "new", "k": 3}).json()["hits"]
    assert len(similar) == 3 and "new" not in [hit["id"] for hit in similar]
    assert writer.request("DELETE", f"{ROUTE}/documents", json={"ids": ["new", 99]}).json() == {"deleted": 1}
    assert SearchIndex.load(folder).get(["new"]) == [None]


def test_a_full_disk_is_told_in_one_line_and_changes_nothing(
    writer: TestClient, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = {"documents": [{"id": f"new {one}", "text": f"a zebra {one}"} for one in range(20)]}
    for method, body, change in (("POST", new, 20), ("PUT", new, 0), ("DELETE", {"ids": [*range(20)]}, -20)):
        before = len(SearchIndex.load(folder))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # stands for a disk that is full
        try:
            answer = writer.request(method, f"{ROUTE}/documents", json=body)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full")
        assert str(folder) not in answer.text
        (failure,) = [one for one in caplog.records if one.levelname == "ERROR"]
        assert failure.exc_info is None and str(folder) in failure.getMessage()
        assert len(SearchIndex.load(folder)) == before
        assert writer.request(method, f"{ROUTE}/documents", json=body).status_code == 200
        assert len(SearchIndex.load(folder)) == before + change
        caplog.clear()


def test_an_update_needs_ids(client: TestClient) -> None:
    answer = client.put(f"{ROUTE}/documents", json={"documents": [{"text": "a zebra"}]})
    assert (answer.status_code, answer.json()["field"]) == (409, "documents.0")
    assert "documents.0 does not have an id" in answer.json()["detail"]


def test_the_fields_of_the_metadata_are_known(client: TestClient) -> None:
    stats = client.get(f"{ROUTE}/stats").json()
    (year,) = stats["fields"]
    assert (stats["documents"], year["name"], year["least"], year["most"]) == (32, "year", 2000, 2031)


@pytest.mark.parametrize(
    ("route", "body", "status"),
    [
        ("none/search", {"query": "a"}, 404),
        ("../../etc/search", {"query": "a"}, 404),
        ("animals/search", {"query": ""}, 422),
        ("animals/search", {"query": "a", "k": 0}, 422),
        ("animals/search", {"query": "a", "where": {"year": {"~": 1}}}, 409),
        ("animals/search", {"query": "a", "min_score": "101%"}, 409),
        ("animals/search", {"query": "a", "mode": "keyword", "min_score": "99%"}, 409),
        ("animals/search", {"query": " "}, 409),
        ("animals/similar", {"id": "none"}, 404),
        ("animals/similar", {"id": 2**64}, 404),
        ("animals/documents", {"documents": [{"id": 2**63, "text": "a"}]}, 409),
        ("animals/documents", {"documents": [{"id": 3, "text": "a"}, {"id": 3.0, "text": "b"}]}, 409),
        ("animals/documents", {"documents": []}, 422),
        ("animals/documents", {"documents": [{"text": 5}]}, 422),
    ],
)
def test_a_bad_request_is_a_problem(route: str, body: Any, status: int, client: TestClient) -> None:
    answer = client.post(f"/v1/indexes/{route}", json=body)
    assert answer.status_code == status and answer.headers["content-type"] == "application/problem+json"


def test_an_address_says_which_methods_it_has(client: TestClient) -> None:
    answer = client.patch(f"{ROUTE}/documents")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, POST, PUT")


def test_nothing_is_changed_by_those_who_may_only_read(animals: Path) -> None:
    new = {"documents": [{"text": "a zebra"}]}
    for options in ({"read_only": True}, {"host": "0.0.0.0", "no_auth": True}):
        with client_of(indexes=(animals,), **options) as client:
            assert client.post(f"{ROUTE}/documents", json=new).status_code == 403
            assert client.request("DELETE", f"{ROUTE}/documents", json={"ids": [0]}).status_code == 403
            assert client.post(f"{ROUTE}/search", json={"query": "cat"}).status_code == 200
    assert len(SearchIndex.load(animals)) == len(TEXTS)


def test_the_page_runs_nothing_but_its_own_script(client: TestClient) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    html, _ = page()
    assert answer.text == html and "{{" not in answer.text
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "innerHTML" not in answer.text and "http://" not in answer.text.replace("http://www.w3.org", "")


def test_indexes_of_one_name_and_what_is_no_index_are_refused(animals: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="both called animals"):
        create_app(Settings(indexes=(animals, animals)))
    with pytest.raises(InputError):
        create_app(Settings(indexes=(tmp_path / "none",)))


@pytest.mark.parametrize("depth", [51, 200, 900])
def test_deeply_nested_conditions_are_a_problem(depth: int, client: TestClient) -> None:
    content = b'{"query": "a", "where": %b{"year": 1}%b}' % (b'{"$not": ' * depth, b"}" * depth)
    answer = client.post(f"{ROUTE}/search", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 409 and answer.json()["field"] == "where"
    assert "nested more than 20 levels deep" in answer.json()["detail"]


@pytest.mark.parametrize("route", ["search", "similar"])
@pytest.mark.parametrize(
    ("where", "warning"),
    [
        (
            {"yaer": 2003},
            "the conditions cannot match any document: none of the documents has the field 'yaer'",
        ),
        (
            {"year": True},
            "the conditions cannot match any document: year is a number in every document, but the condition "
            "needs a boolean",
        ),
        ({"year": 1}, None),
        ({"year": {">": 2003}}, None),
    ],
)
def test_a_filter_that_cannot_match_is_answered_with_a_warning(
    route: str, where: Any, warning: str | None, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"query": "cat"} if route == "search" else {"id": 3}
    for _ in range(2):  # the second is answered from what is kept of the filter
        answer = client.post(f"{ROUTE}/{route}", json={**body, "where": where}).json()
        assert answer["warnings"] == ([] if warning is None else [warning])
    assert not any("yaer" in message for message in caplog.messages)  # the log has nothing that clients send
