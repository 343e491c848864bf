"""What becomes of instructions once they are written: text, or vectors; and in which order they are reached."""
