"""The processors that code is made for ahead of time, by the names that users know them by."""

from __future__ import annotations

from circlet.runtime.records import dataclass

_V2 = "+cx16,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
_V4 = f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,-prefer-256-bit"
"""The levels of x86-64 (System V ABI, AMD64 supplement, 3.1.1)."""
_LINUX, _BARE = "unknown-linux-gnu", "unknown-none"
_WASM = "+bulk-memory,+bulk-memory-opt,+mutable-globals,+nontrapping-fptoint,+sign-ext"
"""What every engine has had since 2021."""
_RV64 = "+a,+c,+d,+f,+m"


@dataclass(frozen=True)
class Processor:
    """A processor and its system.

    Attributes:
        name: what users call it.
        triple: LLVM's name of architecture and system.
        cpu: LLVM's name of the processor.
        features: LLVM's feature string.
        summary: what it stands for, for people.
        abi: LLVM's name of how functions are called; nothing for the usual one.
        is_static: whether code lies where it is linked to, as it does without an operating system.
    """

    name: str
    triple: str
    cpu: str
    features: str
    summary: str
    abi: str = ""
    is_static: bool = False


PROCESSORS = {each.name: each for each in (
    Processor("x86-64", f"x86_64-{_LINUX}", "x86-64", "+sse2", "any x86-64"),
    Processor("x86-64-v2", f"x86_64-{_LINUX}", "x86-64-v2", _V2, "SSE4.2, from 2009 on"),
    Processor("x86-64-v3", f"x86_64-{_LINUX}", "x86-64-v3", _V3, "AVX2, from 2013 on"),
    Processor("x86-64-v4", f"x86_64-{_LINUX}", "x86-64-v4", _V4, "AVX-512"),
    Processor("x86-64-vnni", f"x86_64-{_LINUX}", "cascadelake", f"{_V4},+avx512vnni", "AVX-512 with dot products"),
    Processor("aarch64", f"aarch64-{_LINUX}", "generic", "+fp-armv8,+neon", "64-bit ARM, such as Cortex-A53"),
    Processor("aarch64-dotprod", f"aarch64-{_LINUX}", "generic", "+dotprod,+fp-armv8,+neon,+v8.2a",
              "64-bit ARM with dot products, such as Cortex-A76"),
    Processor("riscv64", f"riscv64-{_LINUX}", "generic-rv64", _RV64, "RV64GC", "lp64d"),
    Processor("riscv32imc", f"riscv32-{_BARE}-elf", "generic-rv32", "+c,+forced-atomics,+m",
              "RV32IMC, without floating point", "ilp32", True),
    Processor("cortex-m0", f"thumbv6m-{_BARE}-gnueabi", "cortex-m0", "+atomics-32",
              "Cortex-M0 and M0+, without floating point", is_static=True),
    Processor("cortex-m4", f"thumbv7em-{_BARE}-gnueabihf", "cortex-m4", "+dsp,+vfp4d16sp", "Cortex-M4F",
              is_static=True),
    Processor("cortex-m7", f"thumbv7em-{_BARE}-gnueabihf", "cortex-m7", "+dsp,+fp-armv8d16,+fp64",
              "Cortex-M7 with double precision", is_static=True),
    Processor("wasm32", "wasm32-unknown-unknown", "mvp", _WASM, "WebAssembly", is_static=True),
    Processor("wasm32-simd", "wasm32-unknown-unknown", "mvp", f"{_WASM},+simd128", "WebAssembly with vectors",
              is_static=True),
)}
"""The processors that are known, by name."""
