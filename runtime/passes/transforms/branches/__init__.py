"""Choices between subgraphs."""
