from .figures import curve_figure, heat_map_figure, interval_figure, png_of, svg_of
from .page import Page, Section, html_report, latex_report, markdown_report
from .results import geometry_table, sts_table, transfer_table
from .table import ABSENT, Label, Table, mean_cell, read_labels

__all__ = [
    "ABSENT",
    "Label",
    "Page",
    "Section",
    "Table",
    "curve_figure",
    "geometry_table",
    "heat_map_figure",
    "html_report",
    "interval_figure",
    "latex_report",
    "markdown_report",
    "mean_cell",
    "png_of",
    "read_labels",
    "sts_table",
    "svg_of",
    "transfer_table",
]
