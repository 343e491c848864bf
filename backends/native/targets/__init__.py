"""The processors that code is made for, a file each. Nothing here loads LLVM."""
