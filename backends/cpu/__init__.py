"""The numpy backend. Importing it registers the rules of every family."""
