"""Training of a usage section, its gates and its report.

May import: `retrain` and what lies below.
"""
