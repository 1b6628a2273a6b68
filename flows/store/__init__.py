"""What is kept in a store and under which key: locks, processes, checksums, whole databases, code versions.

May import: `config` and what lies below it. Talks to no outside system.
"""
