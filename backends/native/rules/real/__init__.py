"""Rules of numbers that are not quantised."""
