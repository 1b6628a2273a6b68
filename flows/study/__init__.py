"""All lifetime families side by side, and the search of their settings.

May import: `retrain` and what lies below.
"""
