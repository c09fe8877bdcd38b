"""Models in other formats; the only importer of onnx and onnxruntime."""
