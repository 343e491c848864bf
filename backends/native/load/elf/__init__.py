"""Shared objects in the format ELF."""
