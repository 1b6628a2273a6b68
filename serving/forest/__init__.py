"""From rows of numbers to raw scores: the forest as flat arrays, read from our ONNX file, and its walks.

The kernel files need numba and are imported only where it is installed. May import: `inputs` and what lies below it.
"""
