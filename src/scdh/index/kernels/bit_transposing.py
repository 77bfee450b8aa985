"""Codes into planes of single bits, 512 codes at a time: a transposition of 64 × 64 bits in each lane of a vector.

A vector has a word of eight codes that follow each other, and 64 such vectors are transposed at once: swap the
off-diagonal halves of squares of 2, 4, … 64 bits. Plane j then has bit j of code 8·r + l in bit r of lane l: an
order in which nothing is moved between lanes. ``rows_of_chunk`` puts the rows of a mask back in order.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from scdh.index.kernels.chunk_distances import address, loop
from scdh.index.kernels.compiled import inlined
from scdh.index.kernels.sliced import LANES
from scdh.index.kernels.ternary import Ternary

_I64 = ir.IntType(64)
_VECTOR = ir.VectorType(_I64, LANES)


@intrinsic
def transpose_word(_typing: Any, base: Any, word: Any, column: Any, planes: Any) -> Any:
    """Word ``word`` of the 512 codes from ``column`` on as planes uint64 [64, 8]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ternary, width = Ternary(context, builder), signature.args[0].dtype.bitwidth
        loaded = ir.VectorType(ir.IntType(width), LANES)
        codes, (next_word, next_code) = address(context, builder, signature.args[0], args[0])
        codes = builder.add(codes, builder.add(builder.mul(args[1], next_word), builder.mul(args[2], next_code)))
        out, (next_plane, _) = address(context, builder, signature.args[3], args[3])

        def place(row: Any, start: Any, stride: Any, kind: Any) -> Any:
            return builder.inttoptr(builder.add(start, builder.mul(row, stride)), kind.as_pointer())

        def from_codes(row: Any) -> Any:
            vector = builder.load(place(row, codes, builder.mul(next_code, _I64(LANES)), loaded), align=width // 8)
            return vector if width == 64 else builder.zext(vector, _VECTOR)

        def from_planes(row: Any) -> Any:
            return builder.load(place(row, out, next_plane, _VECTOR), align=64)

        def halve(nth: Any, load: Any, first: int, next_row: int, steps: tuple[int, ...]) -> list[Any]:
            """Three of the six steps, on eight vectors that swap bits with each other only."""
            rows = [builder.add(builder.mul(nth, _I64(first)), _I64(next_row * i)) for i in range(8)]
            vectors = [load(row) for row in rows]
            for step, distance in zip(steps, (4, 2, 1), strict=True):
                low = _lanes(sum(((1 << step) - 1) << i for i in range(0, 64, 2 * step)))
                shift = _lanes(step)
                for i in (i for i in range(8) if not i & distance):
                    one, other = vectors[i], vectors[i + distance]
                    vectors[i] = ternary.select(low, one, builder.shl(other, shift))
                    vectors[i + distance] = ternary.select(low, builder.lshr(one, shift), other)
            for row, vector in zip(rows, vectors, strict=True):
                builder.store(vector, place(row, out, next_plane, _VECTOR), align=64)
            return []

        # The steps may come in any order; in this one, codes are read one after the other.
        loop(builder, _I64(0), _I64(8), 1, [], lambda nth, _: halve(nth, from_codes, 8, 1, (4, 2, 1)))
        loop(builder, _I64(0), _I64(8), 1, [], lambda nth, _: halve(nth, from_planes, 1, 8, (32, 16, 8)))
        return context.get_dummy_value()

    return types.void(base, types.int64, types.int64, planes), generate


@inlined
def chunks_with_zeros(masks: Any) -> Any:
    """The chunks of 64 rows, as bits, where a mask [8] in the order of planes has zeros."""
    common = masks[0]
    for lane in range(1, LANES):
        common &= masks[lane]
    chunks = np.uint64(0)
    for chunk in range(8):
        byte = common >> np.uint64(8 * chunk) & np.uint64(255)
        chunks |= np.uint64(byte != 255) << np.uint64(chunk)
    return chunks


@inlined
def rows_of_chunk(masks: Any, chunk: int) -> Any:
    """Bits of the 64 rows from 64 · chunk on, in order, of a mask [8] in the order of planes: 8 × 8 bits transposed."""
    square = np.uint64(0)
    for lane in range(LANES):
        square |= (masks[lane] >> np.uint64(8 * chunk) & np.uint64(255)) << np.uint64(8 * lane)
    swap = (square ^ square >> np.uint64(7)) & np.uint64(0x00AA00AA00AA00AA)
    square ^= swap ^ swap << np.uint64(7)
    swap = (square ^ square >> np.uint64(14)) & np.uint64(0x0000CCCC0000CCCC)
    square ^= swap ^ swap << np.uint64(14)
    swap = (square ^ square >> np.uint64(28)) & np.uint64(0x00000000F0F0F0F0)
    return square ^ swap ^ swap << np.uint64(28)


def _lanes(value: int) -> Any:
    return ir.Constant(_VECTOR, [value] * LANES)
