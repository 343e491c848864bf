"""circlet runs, profiles and compiles models that branch and loop."""
