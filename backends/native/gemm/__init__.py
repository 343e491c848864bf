"""Products of matrices: register tiles, packed panels, the loops around them."""
