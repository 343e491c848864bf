"""What `circlet compare` is made of."""
