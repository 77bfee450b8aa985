"""Distances of 512 codes at once, bit by bit: bit-sliced counting for histograms.

To count how many codes are at each distance, no distance is needed as a number. Codes are transposed in groups of 512:
plane j has bit j of all of them. Planes that differ from the query are added with full adders, one binary digit of all
512 distances per vector, and the codes at distance d are found by their digits: a few "and"s and one popcount. That is
less than one instruction per pair. Counting one distance after the other took three times as long (measured), because
each pair changes a counter in memory.

The digits: full adders keep the digits of weight 1, 2, 4 and 8 of the sum so far, and every 16 planes give one plane of
weight 16, which is added to a small binary counter.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from scdh.index.kernels.ternary import Ternary

GROUP = 512
LANES = 8
# Planes are added in bunches of this many, so the adders keep four digits.
BUNCH = 16
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_PLANE = ir.VectorType(_I64, LANES)
_ZERO = ir.Constant(_PLANE, [0] * LANES)
_ONES = ir.Constant(_PLANE, [-1] * LANES)
_PLANE_BYTES = 64


@intrinsic
def count_group(
    _typing: Any, planes: Any, group: Any, queries: Any, query: Any, mask: Any, digits: Any, counts: Any
) -> Any:
    """Add to ``counts`` [levels, 8] how many of a group's codes, of those in ``mask`` [8], are at each distance.

    ``planes`` is uint64 [groups, bits, 8] with bits a multiple of 16; ``queries`` uint64 [q, bits], each all zeros or
    all ones; ``digits`` is a tuple of as many numbers as bits / 16 has binary digits, of which only the length counts:
    it makes them registers; levels are bits + 16. Sums are kept per lane, so nothing is added across a vector here.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def start(place: int) -> tuple[Any, list[Any], list[Any]]:
            array = context.make_array(signature.args[place])(context, builder, args[place])
            shape, strides = cgutils.unpack_tuple(builder, array.shape), cgutils.unpack_tuple(builder, array.strides)
            return builder.ptrtoint(array.data, _I64), shape, strides

        base, shape, strides = start(0)
        base = builder.add(base, builder.mul(args[1], strides[0]))
        query_bits, _, query_strides = start(2)
        query_bits = builder.add(query_bits, builder.mul(args[3], query_strides[0]))
        mask_at, counts_at = start(4)[0], start(6)[0]
        bunches = builder.udiv(shape[1], _I64(BUNCH))
        ternary = Ternary(context, builder)
        low, high = _add_planes(builder, ternary, base, query_bits, bunches, len(signature.args[5]))
        leaves = _nibbles(builder, low, _load(builder, mask_at, _I64(0)))
        with cgutils.for_range(builder, builder.add(bunches, _I64(1))) as loop:
            _count_nibble(builder, leaves, loop.index, high, counts_at)
        return context.get_dummy_value()

    arguments = (planes, types.int64, queries, types.int64, mask, digits, counts)
    return types.void(*arguments), generate


def _add_planes(
    builder: Any, ternary: Ternary, base: Any, query_bits: Any, bunches: Any, highs: int
) -> tuple[list[Any], list[Any]]:
    """The sums' digits of weight 1, 2, 4, 8, and those of weight 16 and more."""
    low, high = ([cgutils.alloca_once(builder, _PLANE) for _ in range(count)] for count in (4, highs))
    for digit in (*low, *high):
        builder.store(_ZERO, digit)
    with cgutils.for_range(builder, bunches) as loop:
        first = builder.mul(loop.index, _I64(BUNCH))
        incoming = []
        for i in range(BUNCH):
            place = builder.add(first, _I64(i))
            word = builder.inttoptr(builder.add(query_bits, builder.mul(place, _I64(8))), _I64.as_pointer())
            incoming.append(builder.xor(_load(builder, base, place), splat(builder, builder.load(word))))
        for digit in low:
            total, carries = builder.load(digit), []
            for one, other in zip(incoming[::2], incoming[1::2], strict=True):
                total, carry = ternary.add(total, one, other)
                carries.append(carry)
            builder.store(total, digit)
            incoming = carries
        carry = incoming[0]
        for digit in high:
            old = builder.load(digit)
            builder.store(builder.xor(old, carry), digit)
            carry = builder.and_(old, carry)
    return [builder.load(digit) for digit in low], [builder.load(digit) for digit in high]


def _nibbles(builder: Any, low: list[Any], mask: Any) -> list[Any]:
    """For each of the 16 values of the low four digits, the codes of the mask that have it."""
    leaves = [mask]
    for digit in low:
        off = builder.xor(digit, _ONES)
        leaves = [builder.and_(leaf, off) for leaf in leaves] + [builder.and_(leaf, digit) for leaf in leaves]
    return leaves


def _count_nibble(builder: Any, leaves: list[Any], value: Any, high: list[Any], counts_at: Any) -> None:
    """Count the codes whose high digits are those of ``value``; most values have none and are skipped."""
    chosen = None
    for i, digit in enumerate(high):
        bit = builder.and_(builder.lshr(value, _I64(i)), _I64(1))
        same = builder.xor(digit, splat(builder, builder.sub(bit, _I64(1))))
        chosen = same if chosen is None else builder.and_(chosen, same)
    nonzero_lanes = builder.bitcast(builder.icmp_unsigned("!=", chosen, _ZERO), ir.IntType(LANES))
    with builder.if_then(builder.icmp_unsigned("!=", nonzero_lanes, ir.IntType(LANES)(0))):
        popcount = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_PLANE, [_PLANE]), f"llvm.ctpop.v{LANES}i64"
        )
        for i, leaf in enumerate(leaves):
            level = builder.add(builder.mul(value, _I64(BUNCH)), _I64(i))
            count = builder.call(popcount, [builder.and_(leaf, chosen)])
            _store(builder, builder.add(_load(builder, counts_at, level), count), counts_at, level)


def _load(builder: Any, start: Any, place: Any) -> Any:
    return builder.load(_plane_pointer(builder, start, place), align=8)


def _store(builder: Any, plane: Any, start: Any, place: Any) -> None:
    builder.store(plane, _plane_pointer(builder, start, place), align=8)


def _plane_pointer(builder: Any, start: Any, place: Any) -> Any:
    return builder.inttoptr(builder.add(start, builder.mul(place, _I64(_PLANE_BYTES))), _PLANE.as_pointer())


def splat(builder: Any, value: Any) -> Any:
    """A plane whose lanes all have one word."""
    empty = ir.Constant(_PLANE, ir.Undefined)
    one = builder.insert_element(empty, value, _I32(0))
    return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))
