"""Where the time of runs goes, in numbers and pictures."""
