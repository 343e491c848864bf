"""What gives another model that computes the same."""
