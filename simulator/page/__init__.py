"""A comparison as one HTML page or as static figures, without any replay.

May import: `experiments` and what lies below it.
"""

from sojourn.simulator.page.comparison_data import Answer, ComparisonData, Pool, answer, in_hosts
from sojourn.simulator.page.figures import BOUND_COLOUR, COLOURS
from sojourn.simulator.page.page import write_page
from sojourn.simulator.page.static_figures import draw_gains, gains_figure, label_ends, label_lines

__all__ = [
    "BOUND_COLOUR", "COLOURS", "Answer", "ComparisonData", "Pool", "answer", "draw_gains", "gains_figure", "in_hosts",
    "label_ends", "label_lines", "write_page",
]  # fmt: skip
