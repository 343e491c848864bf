"""The version of circlet, which builds read here too."""

VERSION = "0.1.0"
