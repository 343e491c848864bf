"""Checks where the values of a network cross the borders of its constructs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.network.layer import Constant, Construct, Entry, Exit, Layer, Region
from circlet.network.tensor import Tensor
from circlet.runtime.errors import ModelError

Members = Mapping[Region, frozenset[int]]


def check_members(order: Sequence[Layer], members: Members, outputs: Sequence[Tensor]) -> None:
    """Checks the regions of a network.

    Raises:
        ModelError: a layer is in both branches of a conditional, or in constructs of which neither holds the other;
            or a value leaves a construct without an output of it, or enters where it must come from outside.
    """
    layers = {layer.number: layer for layer in order}
    _check_branches(layers, members)
    _check_overlaps(layers, members)
    places = _Places(members)
    for layer in order:
        if isinstance(layer, Exit):
            _check_outer(layer.construct, places)
        for each in layer.dependencies:
            places.check_use(each, layer)
    for output in outputs:
        places.check_output(output)


def _check_branches(layers: Mapping[int, Layer], members: Members) -> None:
    for construct in dict.fromkeys(region.construct for region in members):
        if len(construct.regions) < 2:
            continue
        shared = frozenset.intersection(*(members[region] for region in construct.regions))
        wrong = [layers[k] for k in sorted(shared & layers.keys()) if layers[k] not in construct.entries]
        if wrong:
            first, second = construct.regions
            raise ModelError(f"{wrong[0].name}: expected a layer of one branch of {construct.name}, found it in the "
                             f"{first.name} and in the {second.name}; compute it in each, or before the conditional's "
                             "inputs")


def _check_overlaps(layers: Mapping[int, Layer], members: Members) -> None:
    regions = list(members)
    for place, one in enumerate(regions):
        for other in regions[place + 1:]:
            if one.construct is other.construct:
                continue
            shared = members[one] & members[other] & layers.keys()
            if shared and not _holds(one, other, members) and not _holds(other, one, members):
                raise ModelError(f"{layers[min(shared)].name}: expected constructs that nest, found it in {one} and in "
                                 f"{other}, of which neither holds the other")


def _holds(outer: Region, inner: Region, members: Members) -> bool:
    return any(layer.number in members[outer] for layer in inner.construct.exits)


def _check_outer(construct: Construct, places: _Places) -> None:
    for tensor in construct.outer():
        if not places.of(tensor.layer).isdisjoint(construct.regions) or _enters(tensor, construct):
            raise ModelError(f"{tensor}: expected from outside of {construct.name}, which needs it before it begins, "
                             "found a value computed in it")


def _enters(tensor: Tensor, construct: Construct) -> bool:
    return isinstance(tensor.layer, Entry) and tensor.layer.construct is construct


class _Places:
    """The regions in which each layer is."""

    def __init__(self, members: Members) -> None:
        self._regions: dict[int, set[Region]] = {}
        for region, numbers in members.items():
            for number in numbers:
                self._regions.setdefault(number, set()).add(region)

    def of(self, layer: Layer) -> set[Region]:
        """The regions of a layer; of an entry those around its construct."""
        if isinstance(layer, Constant):
            return set()
        regions = self._regions.get(layer.number, set())
        if layer.region is not None:
            regions = regions.union(layer.region.chain())
        return regions.difference(layer.construct.regions) if isinstance(layer, Entry) else regions

    def check_use(self, tensor: Tensor, user: Layer) -> None:
        """Raises ModelError unless `user` is in all regions that hold `tensor`, or is where it leaves them."""
        entered = {user.construct} if isinstance(user, (Entry, Exit)) else set()
        inside = self.of(user).union(*(construct.regions for construct in entered))
        for region in self.of(tensor.layer) - inside:
            raise ModelError(f"{tensor}: expected to leave {region} by an output of {region.construct.name}, found it "
                             f"used by {user.name} outside of it")
        if isinstance(tensor.layer, Entry) and inside.isdisjoint(tensor.layer.construct.regions):
            raise ModelError(f"{tensor}: expected to be used in {tensor.layer.construct.name}, found it used by "
                             f"{user.name} outside of it")

    def check_output(self, tensor: Tensor) -> None:
        """Raises ModelError if an output of the network is in a construct."""
        around = {region.construct for region in self.of(tensor.layer)}
        entered = {tensor.layer.construct} if isinstance(tensor.layer, Entry) else set()
        for construct in around | entered:
            raise ModelError(f"{tensor}: expected to leave {construct.name} by an output of it, found it as an output "
                             "of the network")
