"""Makes machine code, keeps it, loads it and calls it."""
