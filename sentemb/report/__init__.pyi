from .curves import band_figure, curve_figure, layer_figure, learning_curve_figure
from .figures import png_of, svg_of
from .forest import Estimate, ForestPlot
from .geometry import alignment_figure, spectrum_figure
from .labels import Label, read_labels
from .maps import heat_map_figure, label_map_figure, map_figure, pair_map_figure, project_to_plane
from .page import Page
from .sections import Chart, Section, html_report, latex_report, markdown_report

__all__ = [
    "Chart",
    "Estimate",
    "ForestPlot",
    "Label",
    "Page",
    "Section",
    "alignment_figure",
    "band_figure",
    "curve_figure",
    "heat_map_figure",
    "html_report",
    "label_map_figure",
    "latex_report",
    "layer_figure",
    "learning_curve_figure",
    "map_figure",
    "markdown_report",
    "pair_map_figure",
    "png_of",
    "project_to_plane",
    "read_labels",
    "spectrum_figure",
    "svg_of",
]
