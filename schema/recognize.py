"""Says what a file is, by its content."""

from __future__ import annotations

from circlet.runtime.errors import CircletError, ModelError, UnsupportedError

_NOT_MODELS = (
    (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself with `git lfs pull`"),
    (b"<!doctype html", "a web page, perhaps of a failed download"),
    (b"<html", "a web page, perhaps of a failed download"),
)
_OTHER_MODELS = (
    (b"PK\x03\x04", "a zip archive, such as a .task bundle, a .keras or a .pt file"),
    (b"\x89HDF\r\n", "HDF5, such as a Keras .h5 file"),
    (b"\x1f\x8b", "gzip data"),
    (b"GGUF", "a GGUF model"),
    (b"LITERTLM", "a LiteRT-LM bundle"),
    (b"\x7fELF", "an ELF binary"),
    (b"\x08\x01\x12", "a TensorFlow SavedModel"),
    (b"{", "JSON"),
)
_OTHER_FLATBUFFERS = {
    b"CTR0": "Circle training data", b"ORTM": "an ONNX Runtime .ort model", b"ET12": "an ExecuTorch program",
}


def refusal(data: memoryview, formats: str) -> CircletError:
    """The error that says what content is that none of some formats, given in words, has recognised."""
    if not data:
        return ModelError("the file is empty")
    start = bytes(data[:64])
    lower = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for prefix, what in _NOT_MODELS:
        if lower.startswith(prefix):
            return ModelError(f"expected a model, found {what}")
    other = _other_model(start, lower)
    if other is not None:
        return UnsupportedError(f"expected a {formats} model, found {other}")
    return ModelError(f"expected a {formats} model (TFL3 or CIR0 at byte 4), found {start[:8]!r}")


def _other_model(start: bytes, lower: bytes) -> str | None:
    if start[4:8] in _OTHER_FLATBUFFERS:
        return _OTHER_FLATBUFFERS[start[4:8]]
    return next((what for prefix, what in _OTHER_MODELS if start.startswith(prefix) or lower.startswith(prefix)), None)
