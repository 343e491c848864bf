"""The operators, by family. Importing this package fills the registry."""
