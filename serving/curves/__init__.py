"""From raw scores to lifetime curves: formulas, curves, and the kinds of score with all that differs between them.

The C of each kind stands here too, beside the formulas that it repeats. May import: `forest` and what lies below it.
"""
