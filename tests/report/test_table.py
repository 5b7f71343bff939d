"""One table in markdown and in LaTeX; names that look like markup stay names."""

from __future__ import annotations

from sentemb.report.table import Table, escape_latex

GROUPED = Table(
    "Scores",
    ("method", "pooling", "STS12"),
    (("raw", "cls", "1.0"), ("SG", "cls", "2.0"), ("raw", "mean", "3.0"), ("x", "–", "–")),
    ("a note",),
    best=frozenset({(1, 2)}),
    names=2,
    groups=("bert_mini", "bert_mini", "big", ""),
    top=frozenset({(2, 2)}),
)


def test_groups_are_a_column_of_markdown() -> None:
    assert GROUPED.markdown().splitlines() == [
        "**Scores**",
        "",
        "| base | method | pooling | STS12 |",
        "|---|---|---|---:|",
        "| bert_mini | raw | cls | 1.0 |",
        "| bert_mini | SG | cls | **2.0** |",
        "| big | raw | mean | 3.0 |",
        "| – | x | – | – |",
        "",
        "- a note",
    ]


def test_groups_are_parts_of_a_table_in_latex() -> None:
    assert GROUPED.latex().splitlines()[3:-1] == [
        r"\begin{tabular}{llr}",
        r"\toprule",
        r"method & pooling & STS12 \\",
        r"\midrule",
        r"\multicolumn{3}{l}{\textit{bert\_mini}} \\",
        r"\quad raw & cls & 1.0 \\",
        r"\quad SG & cls & \textbf{2.0} \\",
        r"\midrule",
        r"\multicolumn{3}{l}{\textit{big}} \\",
        r"\quad raw & mean & \underline{3.0} \\",
        r"\midrule",
        r"x & -- & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\footnotesize a note",
        r"\par\footnotesize underlined: the best of all",
    ]


def test_a_wide_table_is_set_small() -> None:
    wide = Table("Scores", ("method", *"abcdefgh"), (("x", *["1.00 ± 0.50"] * 8),))
    lines = wide.latex().splitlines()
    assert lines[3] == r"\scriptsize\setlength{\tabcolsep}{2pt}"
    assert lines[8] == "x & " + " & ".join([r"1.00$_{\pm 0.50}$"] * 8) + r" \\"


def test_names_that_look_like_markup_stay_names() -> None:
    table = Table("a\nb", ("<b>x",), (("a|b <!-- /report:sts -->",), ("< 0.01",)))
    lines = table.markdown().splitlines()
    assert lines[0] == "**a b**"
    assert lines[2:] == [r"| \<b>x |", "|---|", r"| a\|b \<!-- /report:sts --> |", "| < 0.01 |"]
    assert escape_latex("x --y –") == "x -{}-y --"
    assert escape_latex("a_b & 50 % \\x{y} <z> ~^#$") == (
        r"a\_b \& 50 \% \textbackslash{}x\{y\} $<$z$>$ \textasciitilde{}\textasciicircum{}\#\$"
    )
