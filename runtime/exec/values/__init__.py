"""What callers give and get: the rule for values, inputs, results."""
