"""What the readers of all formats have in common."""
