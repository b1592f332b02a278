"""Several doubles at a time, inside compiled code.

    from rubrank.fusion.models.lanes import LANES, fma, load, splat, store

    @njit
    def scaled_sum(a, b, out):              # a, b, out: (n, LANES)
        for row in range(out.shape[0]):
            store(out, row, fma(splat(2.0), load(a, row), load(b, row)))

A value of type `Lanes` is one machine vector of `LANES` doubles; `+ - * /` work lane by lane. The kernels put one
criterion in each lane, so one stream of instructions fits several criteria, and the result does not hang on what an
automatic vectoriser makes of a loop. LLVM lowers the same code to AVX-512, AVX2, SSE or NEON.

Eight lanes: one register of AVX-512, two of AVX2. On the step of the paper (12 criteria, of which four lanes of the
second block are wasted) eight took three quarters of the time of four.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic as _typed_intrinsic
from numba.extending import models, overload, register_model

LANES = 8

intrinsic: Any = _typed_intrinsic  # a call has other parameters than the definition, which no type checker can know

_DOUBLE = ir.DoubleType()
_INT64 = ir.IntType(64)
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_INTEGERS = ir.VectorType(_INT64, LANES)


class Lanes(types.Type):
    """The numba type of one vector."""

    def __init__(self) -> None:
        super().__init__(name=f"Lanes{LANES}")


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, frontend_type: Any) -> None:
        super().__init__(manager, frontend_type, _VECTOR)


def _row_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    offset = builder.mul(args[1], ir.Constant(_INT64, LANES))
    return builder.bitcast(builder.gep(array.data, [offset]), _VECTOR.as_pointer())


@intrinsic
def load(typing_context: Any, array: Any, row: Any) -> Any:
    """The vector in `array[row]` of a C-contiguous (rows, LANES) array; no bounds check."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_row_pointer(context, builder, signature, args))
        value.align = 8
        return value

    return lanes(array, types.int64), generate


@intrinsic
def store(typing_context: Any, array: Any, row: Any, value: Any) -> Any:
    """Write a vector to `array[row]`; no bounds check."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _row_pointer(context, builder, signature, args)).align = 8
        return context.get_dummy_value()

    return types.none(array, types.int64, value), generate


@intrinsic
def splat(typing_context: Any, number: Any) -> Any:
    """One number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, args[0], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, undefined, zeros)

    return lanes(types.float64), generate


def _arithmetic(instruction: str) -> Any:
    @intrinsic
    def function(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(*args)

        return lanes(lanes, lanes), generate

    return function


def _define(symbol: Any, instruction: str) -> None:
    function = _arithmetic(instruction)

    @overload(symbol)
    def _operator(a, b):
        if isinstance(a, Lanes) and isinstance(b, Lanes):
            return lambda a, b: function(a, b)
        return None


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define(_symbol, _instruction)


def _llvm(name: str, arity: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function_type = ir.FunctionType(_VECTOR, [_VECTOR] * arity)
        return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), args)

    return lanes(*[lanes] * arity), generate


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """`a * b + c`, fused where the processor can."""
    return _llvm(f"llvm.fmuladd.v{LANES}f64", 3)


@intrinsic
def minus_product(typing_context: Any, c: Any, a: Any, b: Any) -> Any:
    """`c - a * b`, fused where the processor can."""
    signature, multiply_add = _llvm(f"llvm.fmuladd.v{LANES}f64", 3)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return multiply_add(context, builder, signature, [builder.fneg(args[1]), args[2], args[0]])

    return signature, generate


def _pick(comparison: str) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Written as compare-and-select, which is one instruction; LLVM's maxnum is three, for the sake of NaN.
        return builder.select(builder.fcmp_ordered(comparison, *args), *args)

    return lanes(lanes, lanes), generate


@intrinsic
def larger(typing_context: Any, a: Any, b: Any) -> Any:
    """a where a > b, else b (so b where a is NaN)."""
    return _pick(">")


@intrinsic
def smaller(typing_context: Any, a: Any, b: Any) -> Any:
    """a where a < b, else b (so b where a is NaN)."""
    return _pick("<")


@intrinsic
def magnitude(typing_context: Any, a: Any) -> Any:
    """Absolute value."""
    return _llvm(f"llvm.fabs.v{LANES}f64", 1)


@intrinsic
def root(typing_context: Any, a: Any) -> Any:
    """Square root."""
    return _llvm(f"llvm.sqrt.v{LANES}f64", 1)


@intrinsic
def where_greater(typing_context: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    """`yes` in the lanes where a > b, else `no` (also where a or b is NaN)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

    return lanes(lanes, lanes, lanes, lanes), generate


@intrinsic
def any_positive(typing_context: Any, a: Any) -> Any:
    """True when some lane is above 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flags = builder.fcmp_ordered(">", args[0], ir.Constant(_VECTOR, [0.0] * LANES))
        bits = builder.bitcast(flags, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(lanes), generate


@intrinsic
def _power_of_two(typing_context: Any, shifted: Any) -> Any:
    """2^k for shifted = k + 1.5 * 2^52, whose lowest bits are k as an integer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        exponent = builder.add(builder.bitcast(args[0], _INTEGERS), ir.Constant(_INTEGERS, [1023] * LANES))
        return builder.bitcast(builder.shl(exponent, ir.Constant(_INTEGERS, [52] * LANES)), _VECTOR)

    return lanes(lanes), generate


_LIMIT = 700.0  # e^±700 is still a normal number
_LOG2_E = 1.4426950408889634
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer
_LN2_HIGH = 0.6931471803691238  # ln 2 in two parts, so that k * ln 2 is exact enough to subtract
_LN2_LOW = 1.9082149292705877e-10


@njit(error_model="numpy")
def exponential(x: Any) -> Any:
    """e^x with a relative error below 1e-12; x is clamped to ±700."""
    x = smaller(larger(x, splat(-_LIMIT)), splat(_LIMIT))
    shifted = fma(x, splat(_LOG2_E), splat(_ROUND))
    k = shifted - splat(_ROUND)
    r = minus_product(minus_product(x, k, splat(_LN2_HIGH)), k, splat(_LN2_LOW))
    # The Taylor polynomial of degree 10 on |r| <= ln(2)/2, by Horner's rule; the next term is below 3e-13.
    p = splat(1.0 / 3628800.0)
    p = fma(p, r, splat(1.0 / 362880.0))
    p = fma(p, r, splat(1.0 / 40320.0))
    p = fma(p, r, splat(1.0 / 5040.0))
    p = fma(p, r, splat(1.0 / 720.0))
    p = fma(p, r, splat(1.0 / 120.0))
    p = fma(p, r, splat(1.0 / 24.0))
    p = fma(p, r, splat(1.0 / 6.0))
    p = fma(p, r, splat(0.5))
    p = fma(p, r, splat(1.0))
    p = fma(p, r, splat(1.0))
    return p * _power_of_two(shifted)
