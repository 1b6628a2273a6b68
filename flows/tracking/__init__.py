"""MLflow: runs, versions and their artifacts, its database, and what a scheduler pulls.

MLflow is imported in this room only.

May import: `store` and what lies below.
"""
