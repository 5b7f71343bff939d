"""The search page in a real browser: it shows the hits of the server and escapes their content."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sentemb import Client
from sentemb.search import SearchIndex
from tests.browsers import chromium, open_page
from tests.serving.live import Live, live
from tests.training.training_helpers import make_sentences
from tests.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

KEY = "0123456789abcdef"
HOSTILE = "<img src=x onerror=document.title='hacked'> <script>document.title='hacked'</script> \u202eelbmub"
KINDS = ["odd", "even"]
LONG = " ".join(["A bumblebee rests."] * 60)
TEXTS = [*make_sentences(40, seed=3), HOSTILE, LONG]
# Searches of the page that have been answered or given up; what it does about one is done at once.
COUNT_ANSWERS = """
    window.ended = 0;
    const send = window.fetch;
    window.fetch = async (path, options) => {
        const note = () => { if (path.endsWith("/search")) setTimeout(() => window.ended++); };
        const answer = await send(path, options).catch((error) => { note(); throw error; });
        const json = answer.json.bind(answer);
        answer.json = () => json().finally(note);
        return answer;
    };
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page") / "animals"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Live]:
    documents = [
        (
            place,
            text,
            {"year": 2000 + place, "kind": KINDS[place % 2], "title": f"{HOSTILE} {place}"},
        )
        for place, text in enumerate(TEXTS)
    ]
    SearchIndex.build(documents, "static-mini").save(folder)
    with live(folder.parent / "log", "--index", folder, SENTEMB_API_KEYS=KEY) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser, server: Live, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open the page with the key; requests to other hosts and console errors fail the test."""
    complaints: list[str] = []

    def note(asked: Request) -> None:
        if not asked.url.startswith((server.address, "data:,")):
            complaints.append(asked.url)

    opened = open_page(browser, **getattr(request, "param", {}))
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(dialog.message))
    opened.on("request", note)
    opened.add_init_script(f"sessionStorage.setItem('sentemb-key', {json.dumps(KEY)}); {COUNT_ANSWERS}")
    opened.goto(server.address)
    opened.locator(".about").wait_for()
    yield opened
    assert opened.title() == "Search"
    opened.close()
    assert complaints == []


def found(page: Page, pane: int = 1) -> list[str]:
    """Return the titles of the hits, once there are any and no request is pending."""
    page.locator(f".pane:nth-child({pane}):not(.busy) .hit").first.wait_for()
    return page.locator(f".pane:nth-child({pane}) .hit h2 bdi:first-child").all_inner_texts()


def wait_until(page: Page, value: Callable[[], Any], wanted: Any) -> None:
    """Wait until a value is as expected; the page's policy forbids the script that usually does this."""
    wait_for(lambda: value() == wanted, pause=lambda seconds: page.wait_for_timeout(1000 * seconds))


def expected(server: Live, query: str, k: int = 10, **options: Any) -> list[str]:
    with Client(server.address, KEY) as client:
        return [hit.metadata["title"] for hit in client.search("animals", query, k, **options)]


def test_hits_come_while_one_types(page: Page, server: Live) -> None:
    page.locator("#query").press_sequentially("cat sat on", delay=20)
    wait_until(page, lambda: found(page), expected(server, "cat sat on"))
    marked = {text.lower() for text in page.locator(".snippet mark").all_inner_texts()}
    assert marked and marked <= {"cat", "cats", "sat"}


def test_no_document_may_answer(page: Page, server: Live, folder: Path) -> None:
    index = SearchIndex.load(folder)
    index.calibrate([f"an unknown thing {number}" for number in range(19)], [[]] * 19)
    try:
        page.reload()
        page.locator(".about").wait_for()
        page.fill("#query", "tariffs of a bank")
        status = page.locator(".status")
        wait_until(page, status.inner_text, "No document seems to answer this.")
        assert page.locator(".hit").count() == 0
        page.click("text=Show the nearest documents")
        wait_until(page, lambda: found(page), expected(server, "tariffs of a bank"))
        page.fill("#query", "bumblebee rests")
        wait_until(page, lambda: found(page), expected(server, "bumblebee rests"))
    finally:
        index.store.keep(abstention=None)


def test_an_answer_that_comes_late_is_dropped(page: Page, server: Live) -> None:
    held: list[Any] = []

    def answer(route: Any) -> None:
        if json.loads(route.request.post_data)["query"] == "guitar":
            held.append(route)
        else:
            route.continue_()

    page.route("**/search", answer)
    page.fill("#query", "guitar")
    wait_until(page, lambda: len(held), 1)
    page.fill("#query", "apple")
    wait_until(page, lambda: found(page), expected(server, "apple"))
    held[0].continue_()
    wait_until(page, lambda: page.evaluate("window.ended"), 2)
    assert found(page) == expected(server, "apple")


def test_words_and_meaning_side_by_side(page: Page, server: Live) -> None:
    page.fill("#query", "bumblebee rests")
    page.click("#beside")
    wait_until(page, lambda: found(page), expected(server, "bumblebee rests"))
    assert found(page, 2) == expected(server, "bumblebee rests", mode="keyword")
    page.reload()
    assert len(found(page, 2)) == 1 and page.locator(".pane").count() == 2


def test_filters_are_those_of_the_metadata(page: Page, server: Live) -> None:
    page.get_by_label("year, from").fill("2030")
    page.get_by_label(re.compile("odd")).check()
    page.fill("#query", "a dog")
    where = {"year": {">=": 2030}, "kind": {"in": ["odd"]}}
    wait_until(page, lambda: found(page), expected(server, "a dog", where=where))


def test_more_like_a_hit_and_the_keyboard(page: Page, server: Live) -> None:
    page.locator("h1").click()
    page.keyboard.press("/")
    page.keyboard.insert_text("bumblebee")  # at once, or a search of its beginning might be drawn later
    wait_until(page, lambda: found(page), expected(server, "bumblebee"))
    first = found(page)[0]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    whole = page.locator(".whole")
    whole.wait_for()
    assert whole.inner_text() == LONG
    page.keyboard.press("m")
    page.locator("#like:not([hidden])").wait_for()
    wait_until(page, lambda: first in found(page), False)
    page.keyboard.press("Escape")
    page.locator("#like").wait_for(state="hidden")
    assert page.input_value("#query") == "bumblebee"


def test_documents_are_text_and_keep_their_direction(page: Page) -> None:
    page.fill("#query", "img script onerror elbmub")
    found(page)
    assert HOSTILE in page.locator(".snippet").first.inner_text()
    assert page.locator(".hit img, .hit script").count() == 0
    assert page.locator(".hit h2 > :not(bdi)").count() == 0  # or the title would turn what follows


@pytest.mark.parametrize("page", [{"viewport": {"width": 360, "height": 740}}], indirect=True)
def test_a_phone_shows_all_of_it(page: Page) -> None:
    page.fill("#query", "cat")
    found(page)
    page.click("#beside")
    found(page, 2)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360


def test_a_key_is_asked_for(browser: Browser, server: Live) -> None:
    page = open_page(browser)
    page.goto(server.address)
    page.locator("#door").wait_for()
    page.fill("#key", KEY)
    page.press("#key", "Enter")
    page.fill("#query", "cat")
    wait_until(page, lambda: found(page), expected(server, "cat"))
    page.close()
