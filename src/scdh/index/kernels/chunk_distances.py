"""Distances of one query to 256 codes at a time, from codes that are cut into planes.

A plane has the same few bits of all codes of a chunk, one byte for each code: four bits of it (SHUFFLES), or eight
(BYTES). 32 or 64 codes are then compared at once without adding across a vector: per plane one look-up in a table of
the query (or one popcount) and one addition of bytes. A block of codes is cut once for all queries of a call.

``planes`` is uint8 [chunks, planes of a code, 256]; ``tables`` is uint8 [q, planes that count, 16]: for each value of
four bits what it adds to the distance, or in entry 0 the query's own byte (BYTES).
"""

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from scdh.index.kernels.processor import AVX2, BYTES, NEON, way_to_count, way_to_look_up

CHUNK = 256
GROUP = 32  # codes that are cut at once
_WIDE = 64  # codes whose bytes are counted at once; the compiler divides them where vectors are narrower
_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_HALF, _VECTOR = ir.VectorType(_I8, 16), ir.VectorType(_I8, GROUP)


@intrinsic
def way(_typing: Any) -> Any:
    """WORDS, SHUFFLES or BYTES, as a constant of the compiled code."""

    def generate(context: Any, _builder: Any, _signature: Any, _args: Any) -> Any:
        return _I64(way_to_count(context))

    return types.int64(), generate


@intrinsic
def split_group(
    _typing: Any, base: Any, word: Any, column: Any, planes: Any, chunk: Any, group: Any, nibbles: Any
) -> Any:
    """Cut word ``word`` of the 32 codes from ``column`` on into planes, as group ``group`` of a chunk.

    ``nibbles`` says whether planes have four bits. Bytes are transposed in each half of a vector: to interleave two
    halves of a sequence rotates the binary digits of a byte's place by one, and four times that moves the four digits
    of the row behind those of the byte.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = signature.args[0].dtype.bitwidth // 8
        codes, (next_word, _) = address(context, builder, signature.args[0], args[0])
        codes = builder.add(codes, builder.add(builder.mul(args[1], next_word), builder.mul(args[2], _I64(size))))
        vectors = []
        for i in range(size):
            halves = [_load(builder, builder.add(codes, _I64(16 * (i + size * half))), _HALF) for half in range(2)]
            vectors.append(_shuffled(builder, halves[0], halves[1], range(GROUP)))
        for _ in range(4 if size > 1 else 0):
            pairs = zip(vectors[: size // 2], vectors[size // 2 :], strict=True)
            vectors = [_interleaved(builder, *pair, first) for pair in pairs for first in (0, 8)]
        start, (next_chunk, next_plane, _) = address(context, builder, signature.args[3], args[3])
        start = builder.add(start, builder.add(builder.mul(args[4], next_chunk), builder.mul(args[5], _I64(GROUP))))

        def put(vector: Any, plane: Any) -> None:
            place = builder.add(start, builder.mul(plane, next_plane))
            builder.store(vector, builder.inttoptr(place, _VECTOR.as_pointer()), align=1)

        first = builder.mul(args[1], _I64(size))
        with builder.if_else(args[6]) as (cut, whole):
            with cut:
                for i, vector in enumerate(vectors):
                    plane = builder.mul(builder.add(first, _I64(i)), _I64(2))
                    put(builder.and_(vector, _constant(15)), plane)
                    put(builder.lshr(vector, _constant(4)), builder.add(plane, _I64(1)))
            with whole:
                for i, vector in enumerate(vectors):
                    put(vector, builder.add(first, _I64(i)))
        return context.get_dummy_value()

    kinds = (base, types.int64, types.int64, planes, types.int64, types.int64, types.boolean)
    return types.void(*kinds), generate


@intrinsic
def chunk_below(_typing: Any, planes: Any, chunk: Any, tables: Any, query: Any, limit: Any, out: Any) -> Any:
    """Whether one of the chunk's distances is below the limit, at most 255; then ``out`` uint8 [256] has them all.

    Distances of 255 and more are 255 there.
    """
    kinds = (planes, types.int64, tables, types.int64, types.int64, out)
    return types.boolean(*kinds), lambda *given: _compare(*given, weighted=False)


@intrinsic
def weighted_chunk_below(_typing: Any, planes: Any, chunk: Any, tables: Any, query: Any, limit: Any, out: Any) -> Any:
    """The same for tables of any bytes, and planes of four bits on every processor."""
    kinds = (planes, types.int64, tables, types.int64, types.int64, out)
    return types.boolean(*kinds), lambda *given: _compare(*given, weighted=True)


@intrinsic
def which_bytes_below(_typing: Any, distances: Any, start: Any, limit: Any) -> Any:
    """The bytes from ``start`` on that are below the limit, as 64 bits: bit j for byte start + j."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(_I8, 64)
        place = builder.add(address(context, builder, signature.args[0], args[0])[0], args[1])
        limit_byte = _splat(builder, builder.trunc(args[2], _I8), 64)
        return builder.bitcast(builder.icmp_unsigned("<", _load(builder, place, kind), limit_byte), _I64)

    return types.uint64(distances, types.int64, types.int64), generate


def _compare(context: Any, builder: Any, signature: Any, args: Any, *, weighted: bool) -> Any:
    by_bytes = not weighted and way_to_count(context) == BYTES
    look_up, width = (_popcount, _WIDE) if by_bytes else (_look_up(way_to_look_up(context)), GROUP)
    kind = ir.VectorType(_I8, width)
    codes, (next_chunk, next_plane, _) = address(context, builder, signature.args[0], args[0])
    codes = builder.add(codes, builder.mul(args[1], next_chunk))
    tables, (next_query, next_table, _) = address(context, builder, signature.args[2], args[2])
    tables = builder.add(tables, builder.mul(args[3], next_query))
    shape = context.make_array(signature.args[2])(context, builder, args[2]).shape
    count = cgutils.unpack_tuple(builder, shape)[1]

    # Tables of four bits come in pairs, as codes are whole bytes.
    step, most = (1, 31) if by_bytes else (2, 62)

    def add_planes(place: Any, sums: list[Any], saturate: bool) -> list[Any]:
        for nth in range(step):
            plane = builder.add(place, _I64(nth))
            table = _load(builder, builder.add(tables, builder.mul(plane, next_table)), _HALF)
            start = builder.add(codes, builder.mul(plane, next_plane))
            found = [
                look_up(builder, table, _load(builder, builder.add(start, _I64(width * i)), kind))
                for i in range(len(sums))
            ]
            pairs = zip(sums, found, strict=True)
            sums = [_call(builder, "llvm.uadd.sat", *pair) if saturate else builder.add(*pair) for pair in pairs]
        return sums

    # The first planes cannot exceed a byte, and adding without that care takes less time.
    most = 0 if weighted else most
    totals = [_constant(0, width)] * (CHUNK // width)
    if not weighted:
        is_short = builder.icmp_signed("<", count, _I64(most))
        stop = builder.select(is_short, count, _I64(most))
        totals = loop(builder, _I64(0), stop, step, totals, partial(add_planes, saturate=False))
    totals = loop(builder, _I64(most), count, step, totals, partial(add_planes, saturate=True))
    smallest = totals
    while len(smallest) > 1:
        pairs = zip(smallest[::2], smallest[1::2], strict=True)
        smallest = [_call(builder, "llvm.umin", *pair) for pair in pairs]
    is_below = builder.icmp_unsigned("<", smallest[0], _splat(builder, builder.trunc(args[4], _I8), width))
    mask = ir.IntType(width)
    any_below = builder.icmp_unsigned("!=", builder.bitcast(is_below, mask), mask(0))
    with builder.if_then(any_below, likely=False):
        out = address(context, builder, signature.args[5], args[5])[0]
        for i, vector in enumerate(totals):
            place = builder.inttoptr(builder.add(out, _I64(width * i)), kind.as_pointer())
            builder.store(vector, place, align=1)
    return any_below


def loop(builder: Any, start: Any, stop: Any, step: int, values: list[Any], turn: Any) -> list[Any]:
    """The values after ``turn(place, values)`` for start, start + step … below ``stop``, which may be none."""
    before = builder.block
    turns, done = builder.append_basic_block("turns"), builder.append_basic_block("all_turns")
    builder.cbranch(builder.icmp_signed("<", start, stop), turns, done)
    builder.position_at_end(turns)
    place = builder.phi(_I64)
    olds = [builder.phi(value.type) for value in values]
    news = turn(place, olds)
    following = builder.add(place, _I64(step))
    for phi, first, later in zip([place, *olds], [start, *values], [following, *news], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, builder.block)
    inside = builder.block
    builder.cbranch(builder.icmp_signed("<", following, stop), turns, done)
    builder.position_at_end(done)
    results = [builder.phi(value.type) for value in values]
    for phi, first, later in zip(results, values, news, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, inside)
    return results


def _popcount(builder: Any, table: Any, values: Any) -> Any:
    query = _splat(builder, builder.extract_element(table, _I32(0)), values.type.count)
    return _call(builder, "llvm.ctpop", builder.xor(values, query))


def _look_up(way: int) -> Any:
    """The function that looks up 32 numbers below 16 in a table of 16 bytes."""
    return {AVX2: _look_up_by_avx2, NEON: _look_up_by_neon}.get(way, _look_up_anywhere)


def _look_up_by_avx2(builder: Any, table: Any, values: Any) -> Any:
    shuffle = _declare(builder, "llvm.x86.avx2.pshuf.b", values.type, [values.type] * 2)
    return builder.call(shuffle, [_shuffled(builder, table, table, range(GROUP)), values])


def _look_up_by_neon(builder: Any, table: Any, values: Any) -> Any:
    shuffle = _declare(builder, "llvm.aarch64.neon.tbl1.v16i8", _HALF, [_HALF, _HALF])
    halves = [_shuffled(builder, values, values, range(first, first + 16)) for first in (0, 16)]
    low, high = (builder.call(shuffle, [table, half]) for half in halves)
    return _shuffled(builder, low, high, range(GROUP))


def _look_up_anywhere(builder: Any, table: Any, values: Any) -> Any:
    found = _constant(0)
    for value in range(16):
        is_value = builder.icmp_unsigned("==", values, _constant(value))
        entry = _splat(builder, builder.extract_element(table, _I32(value)), GROUP)
        found = builder.select(is_value, entry, found)
    return found


def address(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, list[Any]]:
    """The address of an array, and its strides."""
    array = context.make_array(kind)(context, builder, value)
    return builder.ptrtoint(array.data, _I64), cgutils.unpack_tuple(builder, array.strides)


def _load(builder: Any, place: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(place, kind.as_pointer()), align=1)


def _constant(value: int, count: int = GROUP) -> Any:
    return ir.Constant(ir.VectorType(_I8, count), [value] * count)


def _splat(builder: Any, value: Any, count: int) -> Any:
    empty = ir.Constant(ir.VectorType(_I8, count), ir.Undefined)
    return _shuffled(builder, builder.insert_element(empty, value, _I32(0)), empty, [0] * count)


def _shuffled(builder: Any, one: Any, other: Any, places: Any) -> Any:
    """The bytes at these places of two vectors in a row."""
    places = list(places)
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_I32, len(places)), places))


def _interleaved(builder: Any, one: Any, other: Any, first: int) -> Any:
    """Eight bytes of each half of two vectors in turn, from byte ``first`` of the half on."""
    places = [half + i + side for half in (first, first + 16) for i in range(8) for side in (0, GROUP)]
    return _shuffled(builder, one, other, places)


def _call(builder: Any, name: str, *vectors: Any) -> Any:
    kind = vectors[0].type
    function = _declare(builder, f"{name}.v{kind.count}i8", kind, [kind] * len(vectors))
    return builder.call(function, vectors)


def _declare(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)
