"""Bounds checks in compiled code."""
