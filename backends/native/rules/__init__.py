"""How each operator becomes code."""
