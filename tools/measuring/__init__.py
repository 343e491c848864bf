"""Measures models, in circlet and in other runtimes."""
