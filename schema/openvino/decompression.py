"""Which layers make weights of what is stored of them, as tools write them that compress models."""

from __future__ import annotations

from collections import defaultdict

from circlet.schema.openvino.xml import Network

_STEPS = frozenset({"Convert", "Gather", "Multiply", "Reshape", "Subtract"})


def decompressing(network: Network) -> frozenset[int]:
    """The layers between constants and a conversion to float32, for nothing else.

    What they say to be half precision OpenVINO's CPU plugin computes in single precision, so that weights are not
    rounded.
    """
    sources, users = defaultdict[int, list[int]](list), defaultdict[int, set[int]](set)
    for (target, _), edge in network.sources.items():
        sources[target].append(edge.source)
        users[edge.source].add(target)
    found = set[int]()
    for number, layer in network.layers.items():
        if layer.type == "Convert" and layer.attributes.get("destination_type") == "f32":
            steps = _before(network, sources, number)
            if steps and all(users[each] <= steps | {number} for each in steps):
                found |= steps
    return frozenset(found)


def _before(network: Network, sources: dict[int, list[int]], number: int) -> set[int]:
    """All that a layer is made of but for constants; nothing where that is more than weights are made of."""
    steps, left = set[int](), list(sources[number])
    while left:
        each = left.pop()
        kind = network.layers[each].type
        if kind in ("Const", "Constant") or each in steps:
            continue
        if kind not in _STEPS:
            return set()
        steps.add(each)
        left += sources[each]
    return steps
