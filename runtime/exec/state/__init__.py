"""What a session remembers from run to run."""
