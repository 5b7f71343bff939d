"""The page in a real browser: it loads nothing else, complains about nothing, and its tables sort."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sentemb.report.figures import learning_curve_figure, svg_of
from sentemb.report.page import Section, html_report
from sentemb.report.table import Table
from tests.browsers import chromium, open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ODD = "<img src=x onerror=alert(1)> & \"quotes\" 'n' </script>"
TABLE = Table(
    "Scores",
    ("method", "pooling", "seeds", "STS12", "average"),
    (
        ("raw", "cls", "–", "9.50", "1,000.00"),
        (ODD, "mean", "8", "50.25 ± 0.50", "–"),
        ("SG-OPT", "cls", "8", "50.75 ± 9.00", "< 0.01"),
        ("Flow", "last-2", "1", "-3.00", "20.00"),
    ),
    ("a note",),
    best=frozenset({(2, 3)}),
    names=2,
    groups=("mini", "mini", "large", ""),
    top=frozenset({(2, 3)}),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chart = svg_of(learning_curve_figure({ODD: [{0: 1.0, 50: 2.0}]}, y_label="$5 and $6"))
    sections = [
        Section("sts", "Similarity", sentences=("SG-OPT is better than raw by 0.80",), tables=(TABLE,)),
        Section("training", ODD, charts={ODD: chart}),
    ]
    path = tmp_path_factory.mktemp("report") / "page.html"
    path.write_text(html_report(ODD, sections, verdicts=["Use SG-OPT"]), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Browser, path: Path) -> Iterator[Page]:
    """The page, opened from a file; whatever it asks for or complains about fails the test."""
    complaints: list[str] = []
    opened = open_page(browser)
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(dialog.message))
    opened.on("request", lambda asked: complaints.append(asked.url) if asked.url != path.as_uri() else None)
    opened.goto(path.as_uri())
    yield opened
    opened.close()
    assert complaints == []


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"tbody td:nth-child({number})").all_inner_texts()


def sort_by(page: Page, name: str) -> str | None:
    page.get_by_role("button", name=name, exact=True).click()
    return page.get_by_role("columnheader", name=name).get_attribute("aria-sort")


def test_figures_are_drawn_in_the_colour_of_the_page(browser: Browser, path: Path) -> None:
    inks = {}
    for scheme in ("light", "dark"):
        page = open_page(browser, color_scheme=scheme)
        page.goto(path.as_uri())
        figure = page.get_by_role("img", name=ODD)
        assert figure.bounding_box()["width"] > 300
        inks[scheme] = {
            page.evaluate("getComputedStyle(document.body).color"),
            figure.locator("text").first.evaluate("text => getComputedStyle(text).fill"),
        }
        page.close()
    assert all(len(ink) == 1 for ink in inks.values()) and inks["light"] != inks["dark"]


def test_a_phone_shows_scores_beside_a_first_column_that_stays(page: Page) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    score, name = page.locator("tbody td:nth-child(5)").first, page.locator("tbody td:first-child").first
    assert score.bounding_box()["x"] + score.bounding_box()["width"] <= 400
    assert "raw, cls" in name.inner_text()
    place = name.bounding_box()["x"]
    page.locator(".scroll").evaluate("box => box.scrollTo(200, 0)")
    assert name.bounding_box()["x"] == place
    charts = [one.bounding_box() for one in page.locator(".charts figure").all()]
    assert all(one["width"] <= 400 for one in charts)


def test_a_click_sorts_numbers_from_the_largest_and_another_turns_them_round(page: Page) -> None:
    assert sort_by(page, "STS12") == "descending"
    assert column(page, 5) == ["50.75 ± 9.00", "50.25 ± 0.50", "9.50", "-3.00"]
    assert column(page, 2) == ["SG-OPT", ODD, "raw", "Flow"]
    assert sort_by(page, "STS12") == "ascending"
    assert column(page, 5) == ["-3.00", "9.50", "50.25 ± 0.50", "50.75 ± 9.00"]
    # A cell without a number stays below.
    sort_by(page, "average")
    assert column(page, 6) == ["1,000.00", "20.00", "< 0.01", "–"]
    sort_by(page, "average")
    assert column(page, 6) == ["< 0.01", "20.00", "1,000.00", "–"]


def test_names_sort_from_a_and_only_one_column_says_so(page: Page) -> None:
    sort_by(page, "average")
    assert sort_by(page, "method") == "ascending"
    assert column(page, 2) == [ODD, "Flow", "raw", "SG-OPT"]
    assert page.locator("th[aria-sort]").count() == 1


def test_the_keyboard_is_enough(page: Page) -> None:
    page.get_by_role("button", name="method").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "pooling"
    page.keyboard.press("Enter")
    assert column(page, 3) == ["cls", "cls", "last-2", "mean"]
    page.keyboard.press("Space")
    assert column(page, 3) == ["mean", "last-2", "cls", "cls"]


def test_links_of_the_contents_lead_to_their_headings(page: Page) -> None:
    page.set_viewport_size({"width": 800, "height": 200})
    page.get_by_role("navigation").get_by_role("link", name="Similarity").click()
    assert page.get_by_role("heading", name="Similarity").is_visible()
    assert "#section-" in page.url
