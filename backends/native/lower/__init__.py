"""Subgraphs, operators and control flow become functions."""
