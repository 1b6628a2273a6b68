"""What is kept in a store and under which key: locks, checksums, whole databases, code versions.

Talks to no outside system.

May import: `settings` and what lies below.
"""
