"""Makes one operator of `x * logistic(x)`, which computes an exponential and a division but no logistic by itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops.elementwise import Mul, StablehloMultiply
from circlet.runtime.ops.unary import Logistic, Silu, StablehloLogistic
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs


def fuse_silu(model: Model) -> Model:
    """Replaces each such product of float32 by a `Silu`, and the logistic, which nothing else may read, by a `Skip`."""
    changed = rewrite_subgraphs(model, _fuse)
    return model if changed is model else eliminate_dead(changed)


def _fuse(subgraph: Subgraph) -> Subgraph:
    reads = Counter(each for operator in subgraph.operators for each in operator.inputs)
    reads.update(subgraph.outputs)
    sources = {operator.outputs[0]: operator.inputs[0] for operator in subgraph.operators
               if isinstance(operator.op, (Logistic, StablehloLogistic)) and reads[operator.outputs[0]] == 1}

    def fused(operator: Operator) -> Operator:
        if not _is_plain_product(subgraph, operator):
            return operator
        one, other = operator.inputs
        if sources.get(one) == other or sources.get(other) == one:
            return replace(operator, op=Silu(), inputs=(sources.get(one, one),), version=1)
        return operator

    return rewrite_operators(subgraph, fused)


def _is_plain_product(subgraph: Subgraph, operator: Operator) -> bool:
    """Whether an operator multiplies two tensors of float32 and does nothing else."""
    op = operator.op
    if not isinstance(op, (Mul, StablehloMultiply)):
        return False
    activation = op.fused_activation_function if isinstance(op, Mul) else Activation.NONE
    return activation is Activation.NONE and subgraph.tensors[operator.outputs[0]].dtype is DType.FLOAT32
