"""The numpy backend, with a module of rules for each family of operators."""
