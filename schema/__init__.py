"""Model files: reading them into a `Model` and writing them from one."""
