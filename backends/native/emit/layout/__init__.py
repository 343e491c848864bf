"""Where elements lie in memory, and copies to other orders."""
