"""One outside system a file: MLflow and its database, Prefect's server, Optuna's database, Dask, folders of schedulers.

MLflow and Dask are imported in this room only. May import: `store` and what lies below it.
"""
