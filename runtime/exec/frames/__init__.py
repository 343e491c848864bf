"""Frames that know nothing of the model, and what keeps frames."""
