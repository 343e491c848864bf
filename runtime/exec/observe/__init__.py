"""What observers of a run hear."""
