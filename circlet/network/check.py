"""Checks where the values of a network cross the borders of its constructs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from circlet.network.layer import Construct, Entry, Exit, Layer, Result
from circlet.network.places import Places
from circlet.runtime.errors import ModelError


def check_places(order: Sequence[Layer], places: Places, outputs: Sequence[Result]) -> None:
    """Checks where the layers of a network are.

    Raises:
        ModelError: a layer is in both branches of a conditional, or in constructs of which neither holds the other;
            or a value leaves a construct without an output of it, or enters where it must come from outside.
    """
    for layer in order:
        _check_nesting(layer, places)
    for layer in order:
        if isinstance(layer, Exit):
            _check_outer(layer.construct, places)
        for each in layer.dependencies:
            _check_use(each, layer, places)
    for output in outputs:
        _check_output(output, places)


def _check_nesting(layer: Layer, places: Places) -> None:
    """Checks that of any two regions of a layer one holds the other."""
    for one, other in combinations(places.of(layer), 2):
        if one.construct is other.construct:
            raise ModelError(f"{layer.name}: expected a layer of one branch of {one.construct.name}, found it in the "
                             f"{one.name} and in the {other.name}; compute it in each, or before the conditional's "
                             "inputs")
        if not places.holds(one, other) and not places.holds(other, one):
            raise ModelError(f"{layer.name}: expected constructs that nest, found it in {one} and in {other}, of which "
                             "neither holds the other")


def _check_outer(construct: Construct, places: Places) -> None:
    for tensor in construct.outer():
        if any(region.construct is construct for region in places.of(tensor.layer)) or _enters(tensor, construct):
            raise ModelError(f"{tensor}: expected from outside of {construct.name}, which needs it before it begins, "
                             "found a value computed in it")


def _enters(tensor: Result, construct: Construct) -> bool:
    return isinstance(tensor.layer, Entry) and tensor.layer.construct is construct


def _check_use(tensor: Result, user: Layer, places: Places) -> None:
    """Checks that `user` is in all regions that hold `tensor`, or is where it leaves them."""
    inside = [*places.of(user), *(user.construct.regions if isinstance(user, (Entry, Exit)) else ())]
    for region in places.of(tensor.layer):
        if region not in inside:
            raise ModelError(f"{tensor}: expected to leave {region} by an output of {region.construct.name}, found it "
                             f"used by {user.name} outside of it")
    if isinstance(tensor.layer, Entry) and not any(_enters(tensor, region.construct) for region in inside):
        raise ModelError(f"{tensor}: expected to be used in {tensor.layer.construct.name}, found it used by "
                         f"{user.name} outside of it")


def _check_output(tensor: Result, places: Places) -> None:
    """Checks that an output of the network is in no construct."""
    constructs = [region.construct for region in places.of(tensor.layer)]
    if isinstance(tensor.layer, Entry):
        constructs.append(tensor.layer.construct)
    if constructs:
        raise ModelError(f"{tensor}: expected to leave {constructs[0].name} by an output of it, found it as an output "
                         "of the network")
