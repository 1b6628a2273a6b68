"""Single gates of promotion, each with what it measures. `stages/promotion_gates.py` asks them
all.

May import: `placement` and what lies below it.
"""
