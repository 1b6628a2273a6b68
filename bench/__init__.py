"""A public benchmark of lifetime predictors and of placement and queue policies.

It stands outside the package and imports its public rooms; the package never imports it. `bench/README.md` has the
rules. Read in this order: `tasks` (what is asked), `submission` (what an entrant hands in, and what is refused),
`evaluate` (the only scorer), `board` (ranks with intervals), `run` (runs an entry that is code, and looks for leaks),
`methods` (the baselines and this project's own entries), `end_to_end` (the track that times decisions).
"""
