"""What Linux calls the features of processors."""

from __future__ import annotations

_FLAGS = {
    "64bit": "lm", "avx512bf16": "avx512_bf16", "avx512bitalg": "avx512_bitalg", "avx512fp16": "avx512_fp16",
    "avx512vbmi2": "avx512_vbmi2", "avx512vnni": "avx512_vnni", "avx512vp2intersect": "avx512_vp2intersect",
    "avx512vpopcntdq": "avx512_vpopcntdq", "avxvnni": "avx_vnni", "bmi": "bmi1", "lzcnt": "abm", "pclmul": "pclmulqdq",
    "prfchw": "3dnowprefetch", "rdrnd": "rdrand", "sahf": "lahf_lm", "sha": "sha_ni", "sse3": "pni",
    "sse4.1": "sse4_1", "sse4.2": "sse4_2", "x87": "fpu",
}
"""The flags of x86-64 that have other names than LLVM's features: arch/x86/include/asm/cpufeatures.h of Linux."""


def flags(features: str) -> tuple[str, ...]:
    """The flags in `/proc/cpuinfo` of a feature string of LLVM's, as far as it asks for features."""
    wanted = (each[1:] for each in features.split(",") if each.startswith("+"))
    return tuple(sorted(_FLAGS.get(each, each.replace("-", "_")) for each in wanted))
