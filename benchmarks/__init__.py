"""What a run of a model costs, in circlet and in its peers, measured beside each other: `python -m benchmarks.run`."""
