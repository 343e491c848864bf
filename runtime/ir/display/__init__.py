"""A subgraph or a table as people look at it."""
