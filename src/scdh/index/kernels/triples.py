"""Distances of one query to 512 codes at a time, bit by bit, with the query's part of the work done beforehand.

A vector of 512 bits has one bit of each of 512 codes, so full adders count 512 distances at once (as in ``sliced``).
Bits are taken three at a time: how many of three differ from the query is a number of two digits, and for each of the
eight triples that a query can have, both digits are vectors that depend on the codes alone. They are made once for a
block of codes, and serve all queries of a call: a query only has a list of offsets, which vectors are its own. The
first adder of every three, and every comparison with the query's bits, are then done.

A bunch is 16 bits: five triples and one bit alone. Its vectors in ``tables``: of each triple the low digit for an even
and for an odd triple, then the high digits for triples 0 … 7; finally the single bit and its complement. Sixteen bits
give exactly one carry of weight 16, four bunches one of weight 64, so no adder is idle.

Sums begin at 2^digits − limit, so a distance is below the limit if nothing is carried out of the last digit.
"""

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from scdh.index.kernels.chunk_distances import address, loop
from scdh.index.kernels.sliced import BUNCH, LANES, splat
from scdh.index.kernels.ternary import Ternary

TRIPLES = 5  # of a bunch, and one bit
OFFSETS = 2 * TRIPLES + 1
VECTOR_BYTES = 64
TRIPLE_BYTES = 10 * VECTOR_BYTES
BUNCH_BYTES = TRIPLES * TRIPLE_BYTES + 2 * VECTOR_BYTES
# Digits of a sum: limits are at most 256. Digits that a bunch adds up by itself: 1, 2, 4, 8.
DIGITS = 8
MOST_LIMIT = 1 << DIGITS
_BUNCH_DIGITS = 4
WORD = 4  # bunches of 64 bits
_I8, _I16, _I64 = (ir.IntType(width) for width in (8, 16, 64))
_VECTOR = ir.VectorType(_I64, LANES)
_ONES = ir.Constant(_VECTOR, [-1] * LANES)


@intrinsic
def make_tables(_typing: Any, bits: Any, tables: Any, block: Any, first: Any, count: Any) -> Any:
    """Fill ``tables`` uint8 [blocks, bunches, bytes of a bunch] at ``block``, from bunch ``first`` on.

    The bits, uint64 [64, 8], are those of ``count`` bunches, up to four.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ternary = Ternary(context, builder)
        codes, (next_bit, _) = address(context, builder, signature.args[0], args[0])
        out, (next_block, next_bunch, _) = address(context, builder, signature.args[1], args[1])
        out = builder.add(out, builder.add(builder.mul(args[2], next_block), builder.mul(args[3], next_bunch)))

        def fill(bunch: Any, _values: list[Any]) -> list[Any]:
            bits_at = builder.add(codes, builder.mul(bunch, builder.mul(next_bit, _I64(BUNCH))))
            place = builder.add(out, builder.mul(bunch, next_bunch))
            vectors = [_load(builder, builder.add(bits_at, _I64(VECTOR_BYTES * bit))) for bit in range(BUNCH)]
            made: list[Any] = []
            for i in range(TRIPLES):
                a, b, c = vectors[3 * i : 3 * i + 3]
                odd = ternary.odd(a, b, c)
                made += [odd, builder.xor(odd, _ONES)]
                made += [ternary.majority(a, b, c, flipped=triple) for triple in range(8)]
            made += [vectors[-1], builder.xor(vectors[-1], _ONES)]
            for i, vector in enumerate(made):
                _store(builder, vector, builder.add(place, _I64(VECTOR_BYTES * i)))
            return []

        loop(builder, _I64(0), args[4], 1, [], fill)
        return context.get_dummy_value()

    return types.void(bits, tables, types.int64, types.int64, types.int64), generate


@intrinsic
def find_below(
    _typing: Any, tables: Any, blocks: Any, offsets: Any, query: Any, starts: Any, limit: Any, found: Any, count: Any
) -> Any:
    """Add to ``found`` the blocks of ``tables``, of the first ``blocks``, that have a distance below the limit.

    ``offsets`` is uint16 [q, bunches, 11]; ``starts`` int64 [limits, digits] has the digits of 2^digits − limit, each
    as 0 or −1, for limits up to 256. ``found`` is uint64 [any, 16], of which ``count`` rows are taken; returned is how
    many are then. A row has bits that are zero for codes below the limit, then query and block; one row more than
    needed is written. There is no branch for a block that is found, because the processor would mispredict it.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def start(place: int) -> tuple[Any, list[Any]]:
            return address(context, builder, signature.args[place], args[place])

        (tables_at, (next_block, next_bunch, _)), (offsets_at, (next_query, next_offsets, _)) = start(0), start(2)
        (starts_at, (next_limit, next_digit)), (found_at, (next_found, _)) = start(4), start(6)
        offsets_at = builder.add(offsets_at, builder.mul(args[3], next_query))
        starts_at = builder.add(starts_at, builder.mul(args[5], next_limit))
        shape = context.make_array(signature.args[2])(context, builder, args[2]).shape
        bunches = cgutils.unpack_tuple(builder, shape)[1]
        first = [
            splat(builder, _number(builder, builder.add(starts_at, builder.mul(_I64(digit), next_digit)), _I64))
            for digit in range(DIGITS)
        ]
        first.append(ir.Constant(_VECTOR, [0] * LANES))
        adder = _Adder(builder, Ternary(context, builder), next_bunch, offsets_at, next_offsets)

        def look(block: Any, values: list[Any]) -> list[Any]:
            table = builder.add(tables_at, builder.mul(block, next_block))
            over = adder.add_all(table, bunches, first)
            row = builder.add(found_at, builder.mul(values[0], next_found))
            _store(builder, over, row)
            for place, number in enumerate((args[3], block)):
                at = builder.add(row, _I64(VECTOR_BYTES + 8 * place))
                builder.store(number, builder.inttoptr(at, _I64.as_pointer()))
            is_below = builder.bitcast(builder.icmp_unsigned("!=", over, _ONES), _I8)
            any_below = builder.icmp_unsigned("!=", is_below, _I8(0))
            return [builder.add(values[0], builder.zext(any_below, _I64))]

        return loop(builder, _I64(0), args[1], 1, [args[7]], look)[0]

    kinds = (tables, types.int64, offsets, types.int64, starts, types.int64, found, types.int64)
    return types.int64(*kinds), generate


class _Adder:
    """Adds up the vectors of a query in the tables of a block."""

    def __init__(self, builder: Any, ternary: Ternary, next_bunch: Any, offsets: Any, next_offsets: Any) -> None:
        self._builder = builder
        self._ternary = ternary
        self._next_bunch = next_bunch
        self._offsets, self._next_offsets = offsets, next_offsets

    def add_all(self, table: Any, bunches: Any, totals: list[Any]) -> Any:
        """The bits that are carried out of the last digit of the totals."""
        place = _I64(0)
        for count in (WORD, 2, 1):  # whole words of 64 bits, and at most one pair and one single bunch after them
            stop = self._builder.and_(bunches, _I64(-count))
            totals = loop(self._builder, place, stop, count, totals, partial(self._add_bunches, table, count))
            place = stop
        return totals[DIGITS]

    def _add_bunches(self, table: Any, count: int, place: Any, totals: list[Any]) -> list[Any]:
        """Add 1, 2 or 4 bunches from ``place`` on: a carry for each, and the carries in turn."""
        builder = self._builder
        totals = list(totals)
        carries = []
        digit = _BUNCH_DIGITS
        for i in range(count):
            bunch = builder.add(place, _I64(i))
            vectors = builder.add(table, builder.mul(bunch, self._next_bunch))
            offsets = builder.add(self._offsets, builder.mul(bunch, self._next_offsets))
            carries.append(self._add_bunch(totals, vectors, offsets))
        while len(carries) > 1:
            pairs = zip(carries[::2], carries[1::2], strict=True)
            carries = [self._add(totals, digit, *pair) for pair in pairs]
            digit += 1
        carry = carries[0]
        for higher in range(digit, DIGITS):
            total = totals[higher]
            totals[higher], carry = builder.xor(total, carry), builder.and_(total, carry)
        totals[DIGITS] = builder.or_(totals[DIGITS], carry)
        return totals

    def _add_bunch(self, totals: list[Any], table: Any, offsets: Any) -> Any:
        """Add 16 bits to the totals of weight 1, 2, 4 and 8, and return the carry of weight 16."""
        low = [self._vector(table, offsets, 2 * i) for i in range(TRIPLES + 1)]  # the last one is the single bit
        high = [self._vector(table, offsets, 2 * i + 1) for i in range(TRIPLES)]
        # In an order with few live vectors, because they are all in registers.
        fours = []
        for i in range(2):
            carry = self._add(totals, 0, low[2 * i], low[2 * i + 1])
            fours.append(self._add(totals, 1, high[i], carry))
        eights = [self._add(totals, 2, *fours)]
        carry = self._add(totals, 0, low[4], low[5])
        fours = [self._add(totals, 1, high[2], carry), self._add(totals, 1, high[3], high[4])]
        eights.append(self._add(totals, 2, *fours))
        return self._add(totals, 3, *eights)

    def _vector(self, table: Any, offsets: Any, place: int) -> Any:
        builder = self._builder
        offset = _number(builder, builder.add(offsets, _I64(2 * place)), _I16)
        triple = builder.add(table, _I64(place // 2 * TRIPLE_BYTES))
        return _load(builder, builder.add(triple, builder.zext(offset, _I64)))

    def _add(self, totals: list[Any], digit: int, one: Any, other: Any) -> Any:
        """Add two vectors to a digit of the totals, and return the carry."""
        totals[digit], carry = self._ternary.add(totals[digit], one, other)
        return carry


def _load(builder: Any, place: Any) -> Any:
    return builder.load(builder.inttoptr(place, _VECTOR.as_pointer()), align=VECTOR_BYTES)


def _store(builder: Any, vector: Any, place: Any) -> None:
    builder.store(vector, builder.inttoptr(place, _VECTOR.as_pointer()), align=VECTOR_BYTES)


def _number(builder: Any, place: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(place, kind.as_pointer()))
