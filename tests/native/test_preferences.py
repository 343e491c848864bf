"""The order in which the native rules of an operator are asked."""

from __future__ import annotations

from importlib import import_module

import pytest

from circlet.backends.native.rules.families import MODULES, modules, modules_of_stored
from circlet.backends.native.rules.preferences import PREFERENCES
from circlet.backends.native.rules.rule import RULES, fused, nest
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.unary import Neg


def test_rules_are_in_the_order_that_is_stated() -> None:
    for family in MODULES:
        for each in (*modules(family), *modules_of_stored(family)):
            import_module(each)
    assert {op.name: tuple(each.name for each in rules) for op, rules in RULES.items() if len(rules) > 1} == PREFERENCES


@pytest.mark.parametrize(("op", "name", "message"), [
    pytest.param(Conv2D, "faster", r"rules of CONV_2D: expected one each of .*, found .*, faster", id="unordered"),
    pytest.param(Neg, "plain", "rules of NEG: expected one each of plain, found plain, plain", id="twice"),
])
def test_a_rule_without_a_place_is_refused(op: type, name: str, message: str) -> None:
    for decorator in (fused, nest):
        with pytest.raises(ValueError, match=message):
            decorator(op, name=name)(lambda *_: pytest.fail("a rule that is refused was asked"))
