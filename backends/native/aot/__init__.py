"""Code that is made ahead of time: object files for devices, which need neither Python nor LLVM."""
