"""The page is complete, self-contained and safe against text that looks like markup."""

from __future__ import annotations

from html.parser import HTMLParser

from sentemb.report.page import Page


class Reader(HTMLParser):
    """Collects tags and text, and fails on a tag that is closed out of order."""

    VOID = ("meta", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(page: Page) -> Reader:
    reader = Reader()
    reader.feed(page.html())
    reader.close()
    assert reader.open == []
    return reader


def test_everything_added_is_on_the_page_in_order() -> None:
    page = Page("Title")
    page.heading("Scores")
    page.text("Intro")
    page.table(["model", "score"], [["cls", 12.25]])
    page.picture("data:image/png;base64,AA==", "a map")
    reader = read(page)
    wanted = ["Scores", "Intro", "model", "score", "cls", "12.25"]
    assert [word for word in reader.text if word in wanted] == wanted
    assert "img" in reader.tags
    assert "script" not in reader.tags


def test_text_of_users_is_not_markup() -> None:
    page = Page("<b>x</b>")
    page.table(["<i>"], [["<script>alert(1)</script>"]])
    reader = read(page)
    assert "script" not in reader.tags
    assert "<script>alert(1)</script>" in reader.text
