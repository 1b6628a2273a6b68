"""MLflow: runs, versions and their artifacts, its database, and pulls of a scheduler.

Only this room imports MLflow.

May import: `store` and what lies below.
"""
