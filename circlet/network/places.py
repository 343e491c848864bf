"""Which regions of a network hold which layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.network.layer import Entry, Layer, Region


class Places:
    """The regions in which each layer is."""

    def __init__(self, members: Mapping[Region, frozenset[int]]) -> None:
        """
        Args:
            members: the numbers of the layers in each region, those in regions within it included.
        """
        self._members = members
        self._regions: dict[int, list[Region]] = {}
        for region, numbers in members.items():
            for number in numbers:
                self._regions.setdefault(number, []).append(region)

    def of(self, layer: Layer) -> Sequence[Region]:
        """The regions of a layer; of an entry those around its construct."""
        found = self._regions.get(layer.number, [])
        if isinstance(layer, Entry):
            return [region for region in found if region.construct is not layer.construct]
        return found

    def innermost(self, layer: Layer) -> Region | None:
        """The region that holds no other of the regions of a layer; None outside of all."""
        found = self._regions.get(layer.number, [])
        return min(found, key=lambda region: len(self._members[region]), default=None)

    def holds(self, outer: Region, inner: Region) -> bool:
        """Whether a construct is in a region."""
        return any(layer.number in self._members[outer] for layer in inner.construct.exits)
