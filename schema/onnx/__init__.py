"""ONNX models: read through the package `onnx`, which only this folder imports."""
