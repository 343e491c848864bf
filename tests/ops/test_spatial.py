"""Cases of the operators between spatial axes, batch and channels."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ops.spatial import BatchToSpaceND, DepthToSpace, SpaceToBatchND, SpaceToDepth
from tests.ops.cases import Case, T, as_t, q
from tests.ops.grids import grid, ramp
from tests.ops.run_cases import case_test

IMAGE = np.arange(16, dtype=np.float32).reshape(1, 2, 4, 2)
BLOCK = T([2, 2], constant=True)
NO_MARGINS = T([[0, 0], [0, 0]], constant=True)

CASES = [
    Case("blocks", DepthToSpace(2), [ramp((1, 1, 2, 8))],
         [grid((1, 2, 4, 2), [-11, -4, 3, 10, -1, 6, -10, -3, -6, 1, 8, -8, 4, 11, -5, 2])]),
    Case("int8", DepthToSpace(1), [T(ramp((1, 2, 1, 2), np.int8), q=q(1))], [T(ramp((1, 2, 1, 2), np.int8), q=q(1))]),
    Case("indivisible", DepthToSpace(2), [IMAGE], [IMAGE], error="2 channels cannot be divided"),
    Case("no-block", DepthToSpace(), [IMAGE], [IMAGE], error="block size must be positive"),
    Case("blocks", SpaceToDepth(2), [IMAGE],
         [grid((1, 1, 2, 8), [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15])]),
    Case("int64", SpaceToDepth(2), [np.arange(4).reshape(1, 2, 2, 1)], [np.arange(4).reshape(1, 1, 1, 4)]),
    Case("indivisible", SpaceToDepth(3), [IMAGE], [IMAGE], error="2 x 4 cannot be divided into blocks of 3 x 3"),
    Case("image", SpaceToBatchND(), [IMAGE, BLOCK, NO_MARGINS],
         [grid((4, 1, 2, 2), [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15])]),
    Case("paddings", SpaceToBatchND(), [T(ramp((2, 2, 1, 1), np.int8), q=q(1, -7)), [2, 1],
                                        T([[1, 1], [0, 1]], constant=True)],
         [T(grid((4, 2, 2, 1), [-7, -7, -4, -7, -7, -7, 10, -7, -11, -7, -7, -7, 3, -7, -7, -7], np.int8),
            q=q(1, -7))]),
    Case("one-axis", SpaceToBatchND(), [IMAGE[0], [2], [[0, 0]]],
         [grid((4, 2, 2), [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15])]),
    Case("indivisible", SpaceToBatchND(), [IMAGE, [2, 3], NO_MARGINS], [IMAGE], error=r"\(2, 4\) cannot be divided"),
    Case("wrong-block", SpaceToBatchND(), [IMAGE, [2], NO_MARGINS], [IMAGE], error="has no 1 spatial axes"),
    Case("negative", SpaceToBatchND(), [IMAGE, BLOCK, [[0, 0], [-2, 0]]], [IMAGE], error="not negative"),
    Case("image", BatchToSpaceND(), [ramp((4, 1, 2, 1)), BLOCK, NO_MARGINS],
         [grid((1, 2, 4, 1), [-11, 3, -4, 10, -6, 8, 1, -8])]),
    Case("crops", BatchToSpaceND(), [ramp((4, 2, 2, 1)), BLOCK, [[0, 1], [2, 0]]],
         [grid((1, 3, 2, 1), [-4, 1, 6, 11, 10, -8])]),
    Case("one-axis", BatchToSpaceND(), [ramp((4, 1, 2), np.int32), [2], [[0, 0]]],
         [grid((2, 2, 2), [-11, -4, -6, 1, 3, 10, 8, -8], np.int32)]),
    Case("indivisible", BatchToSpaceND(), [IMAGE, BLOCK, NO_MARGINS], [IMAGE], error="a batch of 1 in blocks of"),
]
test_spatial = case_test(CASES)


def test_margins_may_change() -> None:
    image, block, paddings = np.arange(1, 4, dtype=np.int32).reshape(1, 3, 1), np.array([2]), np.array([[0, 1]])
    out = np.empty((2, 2, 1), np.int32)
    call = Call(SpaceToBatchND(), tuple(as_t(each).tensor for each in (image, block, paddings)), (as_t(out).tensor,))
    step = CpuBackend().kernel(call).bind([image, block, paddings], [out], Run(Variables()))
    step()
    assert out.reshape(-1).tolist() == [1, 3, 2, 0]
    paddings[:] = 1, 0
    step()
    assert out.reshape(-1).tolist() == [0, 2, 1, 3]
    paddings[:] = 1, 2
    with pytest.raises(ExecutionError, match=r"has shape \(2, 3, 1\), the model declares \(2, 2, 1\)"):
        step()
    paddings[:] = 1, 1
    with pytest.raises(ExecutionError, match="cannot be divided"):
        step()
