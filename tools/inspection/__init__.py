"""What `circlet inspect` finds in a model."""
