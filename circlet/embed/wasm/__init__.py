"""WebAssembly modules of object files."""
