"""How a loop whose carried tensors grow becomes loops of fixed shapes; see `transforms.pad_growth`."""
