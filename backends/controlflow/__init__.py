"""Runs the operators that invoke other subgraphs, through the executor map."""
