"""What brings a model to operators that formats have and other programs run."""
