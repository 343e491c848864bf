"""What LLVM calls where a processor has no instruction, as functions of the object file itself: division, shifts and
products of integers, floating point, and copies that may overlap. Each is known by the name that LLVM calls: those of
libgcc and compiler-rt, or of Arm (Run-time ABI for the Arm Architecture, IHI 0043)."""
