"""Models as ONNX graphs, and sessions of other runtimes that run them."""
