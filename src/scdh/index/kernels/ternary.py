"""Functions of three bits on vectors of 512 bits, such as those of a full adder: one instruction where there is one.

AVX-512 has an instruction for any function of three bits. LLVM finds it for the sum, but makes three of the carry.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from scdh.index.kernels.processor import has_ternary

_I32 = ir.IntType(32)
_VECTOR = ir.VectorType(ir.IntType(64), 8)
_ONES = ir.Constant(_VECTOR, [-1] * 8)


class Ternary:
    def __init__(self, context: Any, builder: Any) -> None:
        self._builder, self._is_one_instruction = builder, has_ternary(context)

    def odd(self, a: Any, b: Any, c: Any) -> Any:
        """Bits that are set in one or all three of the vectors."""
        return self._builder.xor(self._builder.xor(a, b), c)

    def majority(self, a: Any, b: Any, c: Any, flipped: int = 0) -> Any:
        """Bits that are set in two or three, after the vectors in ``flipped`` (1 for a, 2 for b, 4 for c) are."""
        builder, flips = self._builder, [flipped >> i & 1 for i in range(3)]
        if self._is_one_instruction:
            return self._compute(lambda *bits: sum(x ^ flip for x, flip in zip(bits, flips, strict=True)) >= 2, a, b, c)
        a, b, c = (builder.xor(x, _ONES) if flip else x for x, flip in zip((a, b, c), flips, strict=True))
        return self.select(builder.xor(a, b), c, a)

    def select(self, mask: Any, one: Any, other: Any) -> Any:
        """Bits of one vector where those of the mask are set, and of another where not."""
        if self._is_one_instruction:
            return self._compute(lambda choose, x, y: x if choose else y, mask, one, other)
        return self._builder.xor(self._builder.and_(self._builder.xor(one, other), mask), other)

    def _compute(self, truth: Callable[[int, int, int], int], *vectors: Any) -> Any:
        truths = sum(int(truth(i >> 2 & 1, i >> 1 & 1, i & 1)) << i for i in range(8))
        kinds = ir.FunctionType(_VECTOR, [_VECTOR] * 3 + [_I32])
        function = cgutils.get_or_insert_function(self._builder.module, kinds, "llvm.x86.avx512.pternlog.q.512")
        return self._builder.call(function, [*vectors, _I32(truths)])

    def add(self, total: Any, a: Any, b: Any) -> tuple[Any, Any]:
        """A full adder: the sum's digit and the carry."""
        return self.odd(total, a, b), self.majority(total, a, b)
