"""The page is complete, self-contained and safe against text that looks like markup."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from html.parser import HTMLParser

from sentemb.report.page import Answer, Page
from sentemb.report.table import Table

SMALL = Table("A table", ("model", "score"), (("cls", "12.25"),), ("a note",))


class Reader(HTMLParser):
    """Collects tags and text, and fails on a tag that is closed out of order."""

    VOID = ("meta", "img")

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.attributes: list[dict[str, str]] = []
        self.html = page.html()
        self.feed(self.html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append(dict(attrs))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_everything_added_is_on_the_page_in_order() -> None:
    page = Page("Title")
    page.heading("Scores")
    page.text("Intro")
    page.table(SMALL)
    page.charts({"a map": "<svg></svg>"})
    right, wrong = Answer("shutil.rmtree", "Delete a tree.", True), Answer("os.<b>", "No tree.", False)
    page.answers("remove a folder", {"keyword": [wrong], "hybrid": [right, wrong]})
    page.commands('sentemb index search my-index "a question"', "sentemb --help")
    page.table(Table("", ("question", "rank"), (("why", "2"),)), folded="All questions")
    reader = Reader(page)
    wanted = ["Scores", "Intro", "A table", "model", "score", "cls", "12.25", "a note"]
    wanted += ["keyword", "os.<b>", "hybrid", "shutil.rmtree", "os.<b>", "All questions"]
    assert [word for word in reader.text if word in wanted] == wanted
    assert "svg" in reader.tags and reader.tags.index("details") > reader.tags.index("pre")
    relevant = '<li class="right">', 'aria-label="relevant document"'
    assert [reader.html.count(mark) for mark in relevant] == [1, 1]
    assert 'sentemb index search my-index "a question"\nsentemb --help\n' in "".join(reader.text)


def test_text_of_users_is_not_markup() -> None:
    markup = "<script>alert('\"')</script>"
    page = Page(markup)
    page.heading(markup)
    page.text(markup)
    page.table(Table(markup, (markup, markup), ((markup, markup),), (markup,), groups=(markup,)))
    page.charts({markup: "<svg></svg>"})
    reader = Reader(page)
    assert reader.tags.count("script") == 1  # ours
    assert reader.text.count(markup) == 12
    assert {"role": "img", "aria-label": markup} in reader.attributes


def test_groups_are_a_column_and_marks_and_numbers_are_known() -> None:
    rows = (("raw", "–", "1,234.5"), ("tuned", "8", "< 0.01 ± 0.5"))
    marks = {"best": frozenset({(1, 2)}), "top": frozenset({(0, 2)})}
    page = Page("Title")
    page.table(Table("", ("method", "seeds", "score"), rows, groups=("base", ""), **marks))
    html = page.html()
    assert '<td class="number" data-value="1234.5"><u>1,234.5</u></td>' in html
    assert '<td class="number" data-value="0.01"><b>&lt; 0.01 ± 0.5</b></td>' in html
    assert '<td class="number">–</td>' in html
    assert re.search(r"<td>base<span[^>]*>raw</span></td><td[^>]*>raw</td>", html)
    assert re.search(r"<td>–<span[^>]*>tuned</span></td><td[^>]*>tuned</td>", html)
    assert "underlined: the best of all" in html and "<caption>" not in html


def test_the_browser_may_load_nothing() -> None:
    html = Page("Title").html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    script = re.search(r"<script>(.*)</script>", html, re.DOTALL)
    assert policy is not None and script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in unescape(policy[1])
    assert "default-src 'none'" in unescape(policy[1])
