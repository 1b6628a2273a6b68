"""What is computed from a finished replay: stranded resources, real use, maps of hosts.

May import: `engine` and what lies below it.
"""
