"""What layers of a network have in common is written once."""
