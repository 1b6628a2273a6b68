"""A job on a schedule: its settings as a deployment, and the runs.

May import: `monitor`, `retrain`, `usage` and what lies below.
"""
