"""From one request to its curve by a bundle's model, in one compiled call where that is possible, and why.

May import: `bundle` and what lies below it.
"""

from sojourn.serving.answers.attribution import ARRIVAL, Attribution, attribute, background_of
from sojourn.serving.answers.curve_builder import CurveBuilder, FirstAnswer, Refresher

__all__ = [
    "ARRIVAL",
    "Attribution",
    "CurveBuilder",
    "FirstAnswer",
    "Refresher",
    "attribute",
    "background_of",
]  # fmt: skip
