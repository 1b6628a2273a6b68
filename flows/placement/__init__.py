"""From models to the simulator: sources of predictions, workloads of a trace, replicas.

May import: `versions` and what lies below it; the simulator imports nothing of this.
"""
