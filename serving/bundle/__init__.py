"""The bundle as files: its schema, its arrays, checked reading and publishing. Data only; loading runs no code.

May import: `curves` and what lies below it.
"""
