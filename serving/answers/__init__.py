"""From one request to its curve by a bundle's model, in one compiled call where that is possible, and why.

May import: `bundle` and what lies below it.
"""
