"""What is replayed: a trace made into requests and hosts, by seeded and named recipes.

May import: `cluster`, `jit`, and `features.trace`.
"""
