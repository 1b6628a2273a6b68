"""Which usage series repeat, and the pulse waves that say when and how much.

May import: `serving.usage`, `features.usage`.
"""

__all__: list[str] = []
