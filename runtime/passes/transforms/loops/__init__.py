"""How a `Loop` becomes WHILE, a file for each part of it."""
