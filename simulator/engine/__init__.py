"""One replay in plain Python: checks its input, composes and compiles the loop with the policy, runs it, measures it.

May import: `loop` and what lies below it.
"""
