"""Sequences, which are objects of Python, as tensors."""
