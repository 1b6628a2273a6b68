"""Settings of jobs: each is one field, from which flags, the environment, TOML files and stages have it.

Stages take a group of fields; a job's settings inherit its groups. Imports no reader and no other room of `flows` at
the top, so that `pull` and `sojourn --help` load none.

May import: `console` and `process`.
"""
