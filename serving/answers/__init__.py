"""From one request to its curve by a bundle's model, in one compiled call where that is possible, and why.

May import: `bundle` and what lies below it.
"""

from sojourn.serving.answers.attribution import ARRIVAL, Explanation, background_of, explain
from sojourn.serving.answers.curve_builder import CurveBuilder
from sojourn.serving.answers.first_answer import FirstAnswer

__all__ = [
    "ARRIVAL", "CurveBuilder", "Explanation", "FirstAnswer", "background_of", "explain",
]  # fmt: skip
