"""The native backend: compiles the call tree of a subgraph with LLVM, which is loaded when something is compiled."""
