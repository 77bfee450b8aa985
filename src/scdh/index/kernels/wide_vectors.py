"""Hamming distances of one query to 64 codes at a time, in the processor's widest vectors.

The other kernels are ordinary numba. This file does what numba's compiler does not: the same arithmetic written as LLVM
vectors of 512 bits. LLVM compiles them to AVX-512 popcounts where the processor has them, and otherwise to AVX2, SSE or
NEON: slower, but with the same results. Measured against the best plain loop that the compiler vectorised alone, this
was twice as fast (64 bits: 10 against 5 G distances/s on one core).

``base`` is contiguous [words of a code, n], as made by ``word_columns``; ``queries`` is [q, words of a code]. A chunk
is the 64 rows from ``column`` on, all of which must exist.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

CHUNK = 64
_VECTOR_BITS = 512
_I32, _I64 = ir.IntType(32), ir.IntType(64)


@intrinsic
def popcount(_typing: Any, word: Any) -> Any:
    """How many bits of a word are set."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.ctpop", [args[0].type]), args)

    return word(word), generate


@intrinsic
def lowest_bit(_typing: Any, word: Any) -> Any:
    """The place of the lowest bit that is set, in a word that has one."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def prefetch(_typing: Any, base: Any, word: Any, column: Any) -> Any:
    """Begin to read the cache line of a word of a code, into the second cache."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.ptrtoint(array.data, _I64)
        for number, stride in zip(args[1:], cgutils.unpack_tuple(builder, array.strides), strict=True):
            place = builder.add(place, builder.mul(number, stride))
        pointer = builder.inttoptr(place, ir.IntType(8).as_pointer())
        kinds = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kinds, "llvm.prefetch.p0")
        builder.call(function, [pointer, _I32(0), _I32(2), _I32(1)])
        return context.get_dummy_value()

    return types.void(base, types.int64, types.int64), generate


@intrinsic
def any_below(_typing: Any, base: Any, column: Any, queries: Any, query: Any, limit: Any) -> Any:
    """Whether one of the chunk's distances is below the limit.

    The smallest of each lane is kept and compared once: a comparison per vector would share the one execution port
    that also counts bits.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _is_any_below(builder, _Chunk(context, builder, signature, args).distances(), args[4])

    return types.boolean(base, types.int64, queries, types.int64, types.int64), generate


@intrinsic
def any_word_below(_typing: Any, base: Any, column: Any, queries: Any, query: Any, limit: Any) -> Any:
    """The same for codes of one word, where no vector waits in memory for the popcounts of another word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _is_any_below(builder, _Chunk(context, builder, signature, args).popcounts(_I64(0)), args[4])

    return types.boolean(base, types.int64, queries, types.int64, types.int64), generate


@intrinsic
def which_below(_typing: Any, base: Any, column: Any, queries: Any, query: Any, limit: Any) -> Any:
    """The chunk's rows below the limit as 64 bits: bit j for row column + j."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = _I64(0)
        for i, vector in enumerate(_Chunk(context, builder, signature, args).distances()):
            part = _below(builder, vector, args[4])
            part = builder.zext(part, _I64) if part.type.width < 64 else part
            mask = builder.or_(mask, builder.shl(part, _I64(i * vector.type.count)))
        return mask

    return types.uint64(base, types.int64, queries, types.int64, types.int64), generate


class _Chunk:
    """Makes the instructions for one chunk; the arguments are those of ``any_below``."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        width = signature.args[0].dtype.bitwidth
        self.kind = ir.VectorType(ir.IntType(width), _VECTOR_BITS // width)
        self._builder, self._word_bytes = builder, _I64(width // 8)
        base = context.make_array(signature.args[0])(context, builder, args[0])
        queries = context.make_array(signature.args[2])(context, builder, args[2])
        self.words = cgutils.unpack_tuple(builder, base.shape)[0]
        self._next_word = cgutils.unpack_tuple(builder, base.strides)[0]
        next_query = cgutils.unpack_tuple(builder, queries.strides)[0]
        self._codes = builder.add(builder.ptrtoint(base.data, _I64), builder.mul(args[1], self._word_bytes))
        self._query = builder.add(builder.ptrtoint(queries.data, _I64), builder.mul(args[3], next_query))

    def popcounts(self, word: Any) -> list[Any]:
        """How many bits of one word differ, as vectors for the chunk's 64 rows."""
        builder, kind = self._builder, self.kind
        start = builder.add(self._codes, builder.mul(word, self._next_word))
        place = builder.add(self._query, builder.mul(word, self._word_bytes))
        query_word = _splat(builder, builder.load(builder.inttoptr(place, kind.element.as_pointer())), kind.count)
        counts = []
        for i in range(CHUNK // kind.count):
            place = builder.add(start, _I64(i * _VECTOR_BITS // 8))
            loaded = builder.load(builder.inttoptr(place, kind.as_pointer()), align=kind.element.width // 8)
            counts.append(builder.call(_vector_function(builder, "ctpop", kind, 1), [builder.xor(loaded, query_word)]))
        return counts

    def distances(self) -> list[Any]:
        """The 64 distances: the popcounts of the first word, plus those of the others in a loop."""
        builder, kind = self._builder, self.kind
        first = self.popcounts(_I64(0))
        before = builder.block
        loop, done = builder.append_basic_block("more_words"), builder.append_basic_block("all_words")
        builder.cbranch(builder.icmp_signed(">", self.words, _I64(1)), loop, done)
        builder.position_at_end(loop)
        word = builder.phi(_I64)
        sums = [builder.phi(kind) for _ in first]
        new_sums = [builder.add(total, count) for total, count in zip(sums, self.popcounts(word), strict=True)]
        following = builder.add(word, _I64(1))
        for phi, start, later in zip([word, *sums], [_I64(1), *first], [following, *new_sums], strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(later, loop)
        builder.cbranch(builder.icmp_signed("<", following, self.words), loop, done)
        builder.position_at_end(done)
        totals = []
        for start, later in zip(first, new_sums, strict=True):
            total = builder.phi(kind)
            total.add_incoming(start, before)
            total.add_incoming(later, loop)
            totals.append(total)
        return totals


def _is_any_below(builder: Any, vectors: list[Any], limit: Any) -> Any:
    kind = vectors[0].type
    # Distances fit 32 bits; the smaller of two numbers of 64 bits is several instructions on most processors.
    narrow = ir.VectorType(_I32, 2 * kind.count) if kind.element.width == 64 else kind
    smallest = builder.bitcast(vectors[0], narrow)
    for vector in vectors[1:]:
        pair = [smallest, builder.bitcast(vector, narrow)]
        smallest = builder.call(_vector_function(builder, "umin", narrow, 2), pair)
    lanes = ir.IntType(kind.count)
    return builder.icmp_unsigned("!=", _below(builder, builder.bitcast(smallest, kind), limit), lanes(0))


def _below(builder: Any, vector: Any, limit: Any) -> Any:
    """One bit per lane: its distance is below the limit, which fits the words' type."""
    element = vector.type.element
    narrow = builder.trunc(limit, element) if element.width < 64 else limit
    # Vectors of 64 bits are compared as signed numbers before AVX-512; distances are the same either way.
    compare = builder.icmp_signed if element.width == 64 else builder.icmp_unsigned
    is_below = compare("<", vector, _splat(builder, narrow, vector.type.count))
    return builder.bitcast(is_below, ir.IntType(vector.type.count))


def _splat(builder: Any, value: Any, count: int) -> Any:
    kind = ir.VectorType(value.type, count)
    empty = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(empty, value, _I32(0))
    return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(_I32, count), [0] * count))


def _vector_function(builder: Any, name: str, kind: Any, arguments: int) -> Any:
    full = f"llvm.{name}.v{kind.count}i{kind.element.width}"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * arguments), full)
