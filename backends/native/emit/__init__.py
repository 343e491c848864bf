"""Writes instructions: arithmetic, loops, values, elementary functions."""
