"""The model that a session is given: one that was loaded, or what it is to be read from when it is needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from circlet.runtime.ir.model import Model, Provenance
from circlet.runtime.late import LOADING
from circlet.schema.content import is_xml, read_with_status, weights_beside

if TYPE_CHECKING:
    from circlet.schema.files import Source


class Given:
    """A model, perhaps not yet read."""

    def __init__(self, source: Model | Source) -> None:
        self._source = source
        self._model = source if isinstance(source, Model) else None
        self.content: memoryview | None = None
        """Of the file of a path, as far as it was read."""
        self.weights: memoryview | None = None
        """Of the file of its weights, as far as that was read."""
        self._provenance: Provenance | None = None
        """That of a path, as far as it was read."""

    def read(self) -> Model:
        """The model, which is read once.

        Raises:
            As `circlet.load`.
        """
        content, weights, known = self.content, self.weights, self._provenance
        # before the look at the model, which another thread may read
        if self._model is None:
            assert not isinstance(self._source, Model)
            with LOADING:
                from circlet.schema.files import load_model

            digest = b"" if known is None else known.made
            self._model = load_model(self._source, weights, content=content, digest=digest)
            self.content = self.weights = self._provenance = None
        return self._model

    def provenance(self) -> Provenance | None:
        """What the model was read from, or would be, if no other files belong to it; None where that is not known.

        Raises:
            OSError: the file cannot be read.
            LimitError: there is not memory enough for it.
        """
        if self._model is not None:
            return self._model.provenance if self._model.is_as_read else None
        if isinstance(self._source, (str, os.PathLike)):
            self._provenance = self._provenance_of_file(self._source)
            return self._provenance
        if isinstance(self._source, (bytes, bytearray, memoryview)):
            content = memoryview(self._source).cast("B").toreadonly()
            return Provenance(content, "", (), ())
        return None

    def _provenance_of_file(self, path: str | os.PathLike[str]) -> Provenance:
        """That of a file, and of the weights beside it."""
        with LOADING:
            from circlet.backends.native.plans.key import FileProvenance

        self.content, status = read_with_status(os.fspath(path))
        if not is_xml(self.content) or not (beside := weights_beside(path)).is_file():
            return FileProvenance(self.content, "", (), (), statuses=(status,))
        self.weights, other = read_with_status(os.fspath(beside))
        return FileProvenance(self.content, "", (), (), self.weights, statuses=(status, other))
