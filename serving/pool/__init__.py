"""The curves of everything that runs, packed into arrays: answers for many requests in one call, and exits of hosts.

May import: `lifetime`, `curves` and what lies below them.
"""
