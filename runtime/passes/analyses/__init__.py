"""What is told of a model without changing it."""
