"""What is learnt: lifetime families, measures, ONNX export, bundle writing."""

__all__: list[str] = []
