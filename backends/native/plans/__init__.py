"""Plans of models: what runs of compiled code need of them."""
