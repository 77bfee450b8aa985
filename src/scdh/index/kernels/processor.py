"""Choose the loops that suit the processor; no other module does this.

The choice depends on the compiler: a small function is compiled for the same target as the kernels, and its
instructions show what is available. So kernels for another processor (NUMBA_CPU_NAME) are right too.

| way to count bits | where |
|---|---|
| BYTES: byte by byte, one popcount each | AVX-512 with popcounts of bytes (BITALG); ARM, not measured there |
| SHUFFLES: four bits at a time, looked up in 16 bytes by one shuffle | AVX2 (also AVX-512 without BITALG) |
| WORDS: vectors of whole words, one popcount each | AVX-512 with popcounts of words only; no byte shuffles |
| SLICED: bit by bit, by full adders (``triples``) | AVX-512, for 24 queries and more, after the first rows |

Measured on one core of an AMD EPYC with AVX-512 (Zen 4), 10⁹ distances per second of 250 queries and a million codes:

| way | 12 bits | 32 | 48 | 64 | 128 | 256 |
|---|---|---|---|---|---|---|
| WORDS | 36 | 17 | 9.2 | 9.1 | 4.9 | 2.6 |
| SHUFFLES | 27 | 12 | 11 | 8.9 | 5.0 | 2.6 |
| BYTES | 54 | 21 | 16 | 13 | 7.4 | 4.0 |
| SLICED | 55 | 24 | 18 | 16 | 9.5 | 5.0 |

Of 12 bits, BYTES and SLICED end once k codes equal the query (without that, BYTES had 35).

Vectors of 512 bits instead of 256 made no difference for BYTES there, and were 6 % slower for look-ups. On AVX2 a
popcount of words is ten instructions; SHUFFLES was three times as fast there (64 bits). Three bytes by two popcounts
(those of their sum and carry, by one ternary instruction) are 8 instructions instead of 9, but were 1 % faster at 256
bits and 8 % slower at 64.

SLICED takes some 75 cycles for 64 bits of 512 codes: 43 full adders of two instructions, and 43 vectors read. The same
adders alone, on fixed addresses, took 70, so little is left. The likely reason: an instruction of three operands that
all come from registers took a whole cycle, one of two operands half of one. Tables of 53 KB, beyond the first cache,
were 2 % slower than those of 13 KB, and 106 KB 10 %. Tables of a block cost as much as some 17 queries; 16 queries were
7 % slower than by BYTES, 32 were 11 to 16 % faster. Without the ternary instruction (the same processor, compiled for
AVX2, where a vector is a pair of 256 bits) SLICED had 6.4, 3.5 and 2.0 at 64, 128 and 256 bits, and SHUFFLES 6.2, 3.9
and 2.1; a version with one vector of 256 bits, for which there are registers enough, was not tried.
"""

from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

WORDS, SHUFFLES, BYTES, SLICED = range(4)
# Ways to look up 32 bytes in a table of 16.
PLAIN, AVX2, NEON = range(3)


def way_to_count(context: Any) -> int:
    """How bits are counted on the machine that ``context``, numba's, compiles for."""
    target = context.codegen().magic_tuple()
    if "vpopcntb" in _assembly(*target, 32, 8):
        return BYTES
    if "vpopcntq" in _assembly(*target, 8, 64):
        return WORDS
    return {AVX2: SHUFFLES, NEON: BYTES, PLAIN: WORDS}[way_to_look_up(context)]


def way_for_many(context: Any) -> int:
    """How bits are counted there for many queries, for which more preparation pays."""
    return SLICED if has_ternary(context) else way_to_count(context)


def has_ternary(context: Any) -> bool:
    """Whether one instruction computes any function of three vectors of 512 bits."""
    text = _assembly(*context.codegen().magic_tuple(), 8, 64, "xor")
    return "vpternlog" in text and "%zmm" in text


def way_to_look_up(context: Any) -> int:
    """How bytes are looked up on that machine."""
    target = context.codegen().magic_tuple()
    if target[0].startswith("aarch64") or target[0].startswith("arm64"):
        return NEON
    # Counting the bits of bytes takes look-ups on x86, or one instruction with wider vectors.
    text = _assembly(*target, 32, 8)
    return AVX2 if "vpopcntb" in text or ("vpshufb" in text and "%ymm" in text) else PLAIN


@cache
def _assembly(triple: str, name: str, features: str, count: int, width: int, work: str = "popcount") -> str:
    """The instructions that count the bits of a vector of ``count`` numbers of ``width`` bits, or xor three of them."""
    module = ir.Module()
    module.triple = triple
    kind = ir.VectorType(ir.IntType(width), count)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [kind.as_pointer()] * 3), "work")
    builder = ir.IRBuilder(function.append_basic_block())
    vectors = [builder.load(argument, align=1) for argument in function.args]
    if work == "popcount":
        popcount = ir.Function(module, ir.FunctionType(kind, [kind]), f"llvm.ctpop.v{count}i{width}")
        result = builder.call(popcount, vectors[:1])
    else:
        result = builder.xor(builder.xor(vectors[0], vectors[1]), vectors[2])
    builder.store(result, function.args[0], align=1)
    builder.ret_void()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=name, features=features, opt=2)
    return str(machine.emit_assembly(llvm.parse_assembly(str(module))))
