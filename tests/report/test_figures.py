"""Rendering needs no display and leaves nothing of a figure's own ink on a page."""

from __future__ import annotations

from xml.etree import ElementTree

from sentemb.report.figures import curve_figure, png_of, svg_of


def curve(name: str):
    return curve_figure({name: ([0, 1], [1, 2]), "b": ([0], [1])}, x_label="x", y_label="y")


def test_png() -> None:
    assert png_of(curve("a"), dots_per_inch=40).startswith(b"\x89PNG")


def test_svg_is_text_in_the_colour_of_the_page_at_the_width_of_its_place() -> None:
    drawn = svg_of(curve("SG-OPT <1>"))
    root = ElementTree.fromstring(drawn)
    assert "width" not in root.attrib and root.attrib["viewBox"].startswith("0 0 ")
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "SG-OPT <1>" in texts
    assert "currentColor" in drawn and "#000000" not in drawn and "#ffffff" not in drawn.lower()


def test_svg_of_equal_figures_is_equal_and_others_share_no_id() -> None:
    first, again, other = (svg_of(curve(name)) for name in ("a", "a", "c"))
    assert first == again

    def ids(drawn: str) -> set[str]:
        return {one.attrib["id"] for one in ElementTree.fromstring(drawn).iter() if "id" in one.attrib}

    assert not ids(first) & ids(other)
