"""What becomes of instructions once they are written: text, or vectors."""
