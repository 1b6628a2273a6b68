"""Predictions as a replay takes them: curves of predicted total lifetime, from oracles,
held answers and flawed oracles.

May import: `workloads`. Imports no model: whoever has one wraps it in a `LifetimeSource`.
"""
