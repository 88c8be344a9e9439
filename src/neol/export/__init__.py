"""A controller that runs without NEOL: in C, JavaScript, plain Python or ONNX, learning included (all but ONNX)."""
