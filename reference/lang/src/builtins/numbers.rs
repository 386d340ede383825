//! Arithmetic, rounding and bit operations on integers of any size and doubles. Knows no order and no text.

use num_bigint::{BigInt, Sign};
use num_integer::Integer as _;
use num_traits::{FromPrimitive as _, Signed as _, ToPrimitive as _, Zero as _};

use super::{Builtin, Home, Section, at_least, constant, exactly, row};
use crate::clock;
use crate::error::{Kind, Limit, Stop, about, bad_value, wrong_type};
use crate::eval::Eval;
use crate::heap;
use crate::value::Value;

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("+", "numbers.+", Section::Core, &[Home::Core], at_least(0), "(+ x y ...)", "Adds numbers; 0 without arguments.", add),
    row("+'", "numbers.+'", Section::Core, &[Home::Core], at_least(0), "(+' x y ...)", "Adds numbers; the same as +, since integers never overflow.", add),
    row("-", "numbers.-", Section::Core, &[Home::Core], at_least(1), "(- x y ...)", "Subtracts the others from the first number, or negates a single one.", subtract),
    row("-'", "numbers.-'", Section::Core, &[Home::Core], at_least(1), "(-' x y ...)", "Subtracts; the same as -, since integers never overflow.", subtract),
    row("*", "numbers.*", Section::Core, &[Home::Core], at_least(0), "(* x y ...)", "Multiplies numbers; 1 without arguments.", multiply),
    row("*'", "numbers.*'", Section::Core, &[Home::Core], at_least(0), "(*' x y ...)", "Multiplies; the same as *, since integers never overflow.", multiply),
    row("/", "numbers./", Section::Core, &[Home::Core], at_least(1), "(/ x), (/ x y ...)", "Divides the first number by the others, or 1 by a single number; the result is always a float.", divide),
    row("inc", "numbers.inc", Section::Core, &[Home::Core], exactly(1), "(inc x)", "Adds one.", inc),
    row("inc'", "numbers.inc'", Section::Core, &[Home::Core], exactly(1), "(inc' x)", "Adds one; the same as inc, since integers never overflow.", inc),
    row("dec", "numbers.dec", Section::Core, &[Home::Core], exactly(1), "(dec x)", "Subtracts one.", dec),
    row("dec'", "numbers.dec'", Section::Core, &[Home::Core], exactly(1), "(dec' x)", "Subtracts one; the same as dec, since integers never overflow.", dec),
    row("quot", "numbers.quot", Section::Math, &[Home::Core, Home::Math], exactly(2), "(quot x y)", "Divides and drops the fraction.", quot),
    row("rem", "numbers.rem", Section::Core, &[Home::Core], exactly(2), "(rem x y)", "Returns the remainder, with the sign of the dividend.", rem),
    row("mod", "numbers.mod", Section::Core, &[Home::Core], exactly(2), "(mod x y)", "Returns the remainder, with the sign of the divisor.", modulo),
    row("abs", "numbers.abs", Section::Math, &[Home::Core, Home::Math], exactly(1), "(abs x)", "Returns the absolute value.", abs),
    row("round", "numbers.round", Section::Math, &[Home::Math], exactly(1), "(round x)", "Rounds to the nearest integer, halves away from zero.", round),
    row("floor", "numbers.floor", Section::Math, &[Home::Math], exactly(1), "(floor x)", "Rounds down to an integer.", floor),
    row("ceil", "numbers.ceil", Section::Math, &[Home::Math], exactly(1), "(ceil x)", "Rounds up to an integer.", ceil),
    row("trunc", "numbers.trunc", Section::Math, &[Home::Math], exactly(1), "(trunc x)", "Drops the fraction.", trunc),
    row("int", "numbers.int", Section::Math, &[Home::Core, Home::Math], exactly(1), "(int x)", "Converts a number to a 32-bit integer by dropping its fraction, or a character to its code point.", int),
    row("long", "numbers.long", Section::Math, &[Home::Core], exactly(1), "(long x)", "Converts a number to an integer by dropping its fraction, or a character to its code point.", long),
    row("double", "numbers.double", Section::Math, &[Home::Core, Home::Math], exactly(1), "(double x)", "Converts a number to a float.", double),
    row("float", "numbers.float", Section::Math, &[Home::Core, Home::Math], exactly(1), "(float x)", "Converts a number to a float.", double),
    row("sqrt", "numbers.sqrt", Section::Math, &[Home::Math], exactly(1), "(sqrt x)", "Returns the square root as a float.", sqrt),
    row("pow", "numbers.pow", Section::Math, &[Home::Math], exactly(2), "(pow base exponent)", "Raises a number to a power; the result is a float.", pow),
    row("Math/log", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/log x)", "The natural logarithm.", |_, args| Ok(Value::Float(number(&args[0])?.float().ln()))).qualified(),
    row("Math/log10", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/log10 x)", "The logarithm to base 10.", |_, args| Ok(Value::Float(number(&args[0])?.float().log10()))).qualified(),
    row("Math/log1p", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/log1p x)", "The natural logarithm of one more.", |_, args| Ok(Value::Float(number(&args[0])?.float().ln_1p()))).qualified(),
    row("Math/exp", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/exp x)", "e to a power.", |_, args| Ok(Value::Float(number(&args[0])?.float().exp()))).qualified(),
    row("Math/expm1", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/expm1 x)", "e to a power, less one.", |_, args| Ok(Value::Float(number(&args[0])?.float().exp_m1()))).qualified(),
    row("Math/cbrt", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/cbrt x)", "The cube root.", |_, args| Ok(Value::Float(number(&args[0])?.float().cbrt()))).qualified(),
    row("Math/sin", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/sin x)", "The sine of an angle in radians.", |_, args| Ok(Value::Float(number(&args[0])?.float().sin()))).qualified(),
    row("Math/cos", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/cos x)", "The cosine of an angle in radians.", |_, args| Ok(Value::Float(number(&args[0])?.float().cos()))).qualified(),
    row("Math/tan", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/tan x)", "The tangent of an angle in radians.", |_, args| Ok(Value::Float(number(&args[0])?.float().tan()))).qualified(),
    row("Math/asin", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/asin x)", "The angle with a sine, in radians.", |_, args| Ok(Value::Float(number(&args[0])?.float().asin()))).qualified(),
    row("Math/acos", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/acos x)", "The angle with a cosine, in radians.", |_, args| Ok(Value::Float(number(&args[0])?.float().acos()))).qualified(),
    row("Math/atan", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/atan x)", "The angle with a tangent, in radians.", |_, args| Ok(Value::Float(number(&args[0])?.float().atan()))).qualified(),
    row("Math/sinh", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/sinh x)", "The hyperbolic sine.", |_, args| Ok(Value::Float(number(&args[0])?.float().sinh()))).qualified(),
    row("Math/cosh", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/cosh x)", "The hyperbolic cosine.", |_, args| Ok(Value::Float(number(&args[0])?.float().cosh()))).qualified(),
    row("Math/tanh", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/tanh x)", "The hyperbolic tangent.", |_, args| Ok(Value::Float(number(&args[0])?.float().tanh()))).qualified(),
    row("Math/toRadians", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/toRadians x)", "Degrees in radians.", |_, args| Ok(Value::Float(number(&args[0])?.float().to_radians()))).qualified(),
    row("Math/toDegrees", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/toDegrees x)", "Radians in degrees.", |_, args| Ok(Value::Float(number(&args[0])?.float().to_degrees()))).qualified(),
    row("Math/signum", "numbers.functions", Section::Math, &[Home::Math], exactly(1), "(Math/signum x)", "-1.0, 0.0 or 1.0, as a number is negative, zero or positive.", signum).qualified(),
    row("Math/atan2", "numbers.functions", Section::Math, &[Home::Math], exactly(2), "(Math/atan2 y x)", "The angle of a point, in radians.", |_, args| Ok(Value::Float(number(&args[0])?.float().atan2(number(&args[1])?.float())))).qualified(),
    row("Math/hypot", "numbers.functions", Section::Math, &[Home::Math], exactly(2), "(Math/hypot x y)", "The length of the third side of a right triangle.", |_, args| Ok(Value::Float(number(&args[0])?.float().hypot(number(&args[1])?.float())))).qualified(),
    row("Math/floorDiv", "numbers.floorDiv", Section::Math, &[Home::Math], exactly(2), "(Math/floorDiv x y)", "Divides integers and rounds down.", floor_div).qualified(),
    row("Math/floorMod", "numbers.floorDiv", Section::Math, &[Home::Math], exactly(2), "(Math/floorMod x y)", "Returns the remainder of integers, with the sign of the divisor.", floor_mod).qualified(),
    constant("Math/PI", "numbers.constants", Section::Math, &[Home::Math], "The ratio of a circle to its diameter.", std::f64::consts::PI).qualified(),
    constant("Math/E", "numbers.constants", Section::Math, &[Home::Math], "The base of the natural logarithm.", std::f64::consts::E).qualified(),
    row("max", "numbers.max", Section::Math, &[Home::Core, Home::Math], at_least(1), "(max x y ...)", "Returns the largest argument.", max),
    row("min", "numbers.min", Section::Math, &[Home::Core, Home::Math], at_least(1), "(min x y ...)", "Returns the smallest argument.", min),
    row("bit-and", "bits.bit-and", Section::Math, &[Home::Core, Home::Math], at_least(2), "(bit-and x y & more)", "Returns the bits that are set in all integers.", bit_and),
    row("bit-or", "bits.bit-or", Section::Math, &[Home::Core, Home::Math], at_least(2), "(bit-or x y & more)", "Returns the bits that are set in any of the integers.", bit_or),
    row("bit-xor", "bits.bit-xor", Section::Math, &[Home::Core, Home::Math], at_least(2), "(bit-xor x y & more)", "Returns the bits that are set in an odd number of the integers.", bit_xor),
    row("bit-and-not", "bits.bit-and-not", Section::Math, &[Home::Core, Home::Math], at_least(2), "(bit-and-not x y & more)", "Clears in the first integer the bits that are set in the others.", bit_and_not),
    row("bit-not", "bits.bit-not", Section::Math, &[Home::Core, Home::Math], exactly(1), "(bit-not x)", "Inverts every bit.", bit_not),
    row("bit-shift-left", "bits.bit-shift-left", Section::Math, &[Home::Core, Home::Math], exactly(2), "(bit-shift-left x n)", "Shifts an integer left by a number of bits.", bit_shift_left),
    row("bit-shift-right", "bits.bit-shift-right", Section::Math, &[Home::Core, Home::Math], exactly(2), "(bit-shift-right x n)", "Shifts an integer right by a number of bits, keeping its sign.", bit_shift_right),
    row("bit-test", "bits.bit-test", Section::Math, &[Home::Core, Home::Math], exactly(2), "(bit-test x n)", "Returns true when the bit at an index is set.", bit_test),
    row("bit-set", "bits.bit-set", Section::Math, &[Home::Core, Home::Math], exactly(2), "(bit-set x n)", "Sets the bit at an index.", bit_set),
    row("bit-clear", "bits.bit-clear", Section::Math, &[Home::Core, Home::Math], exactly(2), "(bit-clear x n)", "Clears the bit at an index.", bit_clear),
    row("bit-flip", "bits.bit-flip", Section::Math, &[Home::Core, Home::Math], exactly(2), "(bit-flip x n)", "Inverts the bit at an index.", bit_flip),
];

/// Integers of more bits than this exceed the memory limit: reading and printing them takes quadratic time, and no
/// single operation may take long (`limits.numbers.size`).
const INTEGER_BITS_MAX: u64 = 1 << 18;

// The largest integer that JSON may contain is below this limit. A digit is less than 3.321929 bits.
const _: () =
    assert!(crate::json::INTEGER_DIGITS_MAX as u64 * 3_321_928 / 1_000_000 < INTEGER_BITS_MAX);

type Result<T = Value> = std::result::Result<T, Stop>;

/// A number by representation.
enum Number<'v> {
    Int(i64),
    Big(&'v BigInt),
    Float(f64),
}

fn number(value: &Value) -> Result<Number<'_>> {
    match value {
        Value::Int(int) => Ok(Number::Int(*int)),
        Value::BigInt(int) => {
            // Any operation reads the digits, and usually copies them.
            clock::check(int.bits() as usize / 256)?;
            Ok(Number::Big(int))
        }
        Value::Float(float) => Ok(Number::Float(*float)),
        _ => Err(wrong_type("a number", value)),
    }
}

impl Number<'_> {
    fn float(&self) -> f64 {
        match self {
            Number::Int(int) => *int as f64,
            Number::Big(int) => big_float(int),
            Number::Float(float) => *float,
        }
    }

    fn big(&self) -> BigInt {
        match self {
            Number::Int(int) => BigInt::from(*int),
            Number::Big(int) => (*int).clone(),
            Number::Float(float) => BigInt::from_f64(float.trunc()).unwrap_or_default(),
        }
    }

    /// The number of bits of an integer.
    fn bits(&self) -> u64 {
        match self {
            Number::Big(int) => int.bits(),
            _ => 64,
        }
    }

    fn is_float(&self) -> bool {
        matches!(self, Number::Float(_))
    }

    /// Whether it is an integer that a double certainly represents exactly.
    fn is_exact_float(&self) -> bool {
        matches!(self, Number::Int(int) if int.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS)
    }
}

/// The nearest double; an infinity beyond the range of doubles.
fn big_float(int: &BigInt) -> f64 {
    int.to_f64().unwrap_or(if int.is_negative() {
        f64::NEG_INFINITY
    } else {
        f64::INFINITY
    })
}

/// Reserves memory for integers of `bits` bits in total, before they are made.
fn reserve_bits(bits: u64) -> Result<()> {
    /// The next memory check catches smaller amounts.
    const SMALL_BYTES: u64 = 4096;
    let bytes = bits / 8;
    if bytes < SMALL_BYTES || heap::reserve(usize::try_from(bytes).unwrap_or(usize::MAX)) {
        Ok(())
    } else {
        Err(Limit::Memory.into())
    }
}

/// An integer result, refused when it is too large.
fn whole(int: BigInt) -> Result {
    let bits = int.bits();
    if bits > INTEGER_BITS_MAX {
        return Err(Limit::Memory.into());
    }
    // Copying the operands and computing the result took time too.
    clock::check(1 + bits as usize / 64)?;
    Ok(Value::integer(int))
}

/// `a + b`
#[inline]
pub fn plus(a: &Value, b: &Value) -> Result {
    if let (Value::Int(a), Value::Int(b)) = (a, b)
        && let Some(sum) = a.checked_add(*b)
    {
        return Ok(Value::Int(sum));
    }
    if let (Value::Float(a), Value::Float(b)) = (a, b) {
        return Ok(Value::Float(a + b));
    }
    mixed(a, b, |a, b| a + b, |a, b| a + b)
}

#[inline]
fn minus(a: &Value, b: &Value) -> Result {
    if let (Value::Int(a), Value::Int(b)) = (a, b)
        && let Some(difference) = a.checked_sub(*b)
    {
        return Ok(Value::Int(difference));
    }
    mixed(a, b, |a, b| a - b, |a, b| a - b)
}

#[inline]
fn times(a: &Value, b: &Value) -> Result {
    if let (Value::Int(a), Value::Int(b)) = (a, b)
        && let Some(product) = a.checked_mul(*b)
    {
        return Ok(Value::Int(product));
    }
    if let (Value::BigInt(a), Value::BigInt(b)) = (a, b)
        && a.bits() + b.bits() > INTEGER_BITS_MAX + 1
    {
        return Err(Limit::Memory.into());
    }
    mixed(a, b, |a, b| a * b, |a, b| a * b)
}

fn mixed(
    a: &Value,
    b: &Value,
    floats: fn(f64, f64) -> f64,
    ints: fn(BigInt, BigInt) -> BigInt,
) -> Result {
    let (a, b) = (number(a)?, number(b)?);
    if a.is_float() || b.is_float() {
        return Ok(Value::Float(floats(a.float(), b.float())));
    }
    // Both operands, and the results.
    reserve_bits((a.bits() + b.bits()) * 2)?;
    let (a, b) = (a.big(), b.big());
    if a.bits().max(b.bits()) > INTEGER_BITS_MAX {
        return Err(Limit::Memory.into());
    }
    whole(ints(a, b))
}

/// Charges an operation on two large integers: a product or a quotient takes time proportional to the product of their
/// lengths.
fn charge_large(eval: &mut Eval<'_>, a: &Value, b: &Value) -> Result<()> {
    /// The approximate number of products of two 64-bit words that are computed in the time of one step.
    const STEP_PRODUCTS: u64 = 64;
    let words = |value: &Value| match value {
        Value::BigInt(int) => int.bits() / 64,
        _ => 1,
    };
    let products = words(a).saturating_mul(words(b));
    if products < STEP_PRODUCTS {
        return Ok(());
    }
    eval.charge(usize::try_from(products / STEP_PRODUCTS).unwrap_or(usize::MAX))
}

fn fold(
    eval: &mut Eval<'_>,
    args: &mut [Value],
    empty: i64,
    op: fn(&Value, &Value) -> Result,
) -> Result {
    match args {
        [] => Ok(Value::Int(empty)),
        [a] => {
            number(a)?;
            Ok(std::mem::take(a))
        }
        [a, b] => {
            charge_large(eval, a, b)?;
            op(a, b)
        }
        [first, rest @ ..] => {
            let mut result = std::mem::take(first);
            for arg in rest {
                charge_large(eval, &result, arg)?;
                result = op(&result, arg)?;
            }
            Ok(result)
        }
    }
}

fn add(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    fold(eval, args, 0, plus)
}

fn multiply(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    fold(eval, args, 1, times)
}

fn subtract(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match args {
        // Subtracting a zero from 0 would lose its sign.
        [Value::Float(only)] => Ok(Value::Float(-*only)),
        [only] => minus(&Value::Int(0), only),
        _ => fold(eval, args, 0, minus),
    }
}

fn divide(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let over = |a: &Value, b: &Value| {
        let (a, b) = (number(a)?, number(b)?);
        if !b.is_float() && b.float() == 0.0 {
            return Err(Kind::Arithmetic("division by zero").into());
        }
        // Rounding the operands as well would round twice.
        if a.is_float() || b.is_float() || (a.is_exact_float() && b.is_exact_float()) {
            return Ok(Value::Float(a.float() / b.float()));
        }
        reserve_bits((a.bits() + b.bits()) * 2)?;
        Ok(Value::Float(big_quotient(&a.big(), &b.big())))
    };
    match args {
        [only] => over(&Value::Int(1), only),
        _ => fold(eval, args, 1, over),
    }
}

/// The smallest normal double is two to the power of minus this number.
const NORMAL_FROM: u64 = 1_022;
/// The smallest positive double is two to the power of minus this number.
const LEAST_DOUBLE: usize = 1_074;

/// The quotient of two large integers, exact to the precision of a double even if an operand is beyond its range.
fn big_quotient(a: &BigInt, b: &BigInt) -> f64 {
    if a.is_negative() != b.is_negative() {
        return -big_quotient(&a.abs(), &b.abs());
    }
    let (a, b) = (a.magnitude(), b.magnitude());
    // Below the normal doubles the result has fewer bits, so rounding it to full precision first would round twice. It
    // is a multiple of the smallest double, and the multiplier is its bit pattern.
    if b.bits() >= a.bits() + NORMAL_FROM {
        let (count, rest) = (a << LEAST_DOUBLE).div_rem(b);
        let odd = u64::from(count.bit(0));
        let up = match (rest << 1u8).cmp(b) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => odd,
            std::cmp::Ordering::Greater => 1,
        };
        return f64::from_bits(count.to_u64().unwrap_or_default() + up);
    }
    let shift = 64 + b.bits() as i64 - a.bits() as i64;
    let (mut scaled, rest) = if shift >= 0 {
        (a << shift as usize).div_rem(b)
    } else {
        a.div_rem(&(b << (-shift) as usize))
    };
    // A bit far below the last significant one shows on which side of the midpoint the quotient lies.
    if !rest.is_zero() {
        scaled.set_bit(0, true);
    }
    let shift = i32::try_from(shift).unwrap_or(if shift > 0 { i32::MAX } else { i32::MIN });
    // In two steps, since the scale alone may be beyond the range of a double.
    big_float(&BigInt::from(scaled)) * 2f64.powi(-shift / 2) * 2f64.powi(-shift - (-shift / 2))
}

fn inc(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    plus(&args[0], &Value::Int(1))
}

fn dec(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    minus(&args[0], &Value::Int(1))
}

/// Integer division, also for floats with integer values.
fn whole_division(
    eval: &mut Eval<'_>,
    args: &[Value],
    ints: fn(&BigInt, &BigInt) -> BigInt,
    small: fn(i64, i64) -> Option<i64>,
    floats: fn(f64, f64) -> f64,
) -> Result {
    charge_large(eval, &args[0], &args[1])?;
    let (a, b) = (number(&args[0])?, number(&args[1])?);
    if b.float() == 0.0 {
        return Err(Kind::Arithmetic("division by zero").into());
    }
    if let (Number::Int(a), Number::Int(b)) = (&a, &b)
        && let Some(result) = small(*a, *b)
    {
        return Ok(Value::Int(result));
    }
    if a.is_float() || b.is_float() {
        let (a, b) = (a.float(), b.float());
        if !a.is_finite() || b.is_nan() {
            return Err(Kind::Arithmetic("an infinity or NaN has no whole quotient").into());
        }
        return Ok(Value::Float(floats(a, b)));
    }
    reserve_bits((a.bits() + b.bits()) * 2)?;
    whole(ints(&a.big(), &b.big()))
}

fn quot(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let result = whole_division(
        eval,
        args,
        |a, b| a / b,
        i64::checked_div,
        |a, b| (a / b).trunc(),
    )?;
    match result {
        Value::Float(float) => match BigInt::from_f64(float) {
            Some(int) => whole(int),
            None => Err(Kind::Arithmetic("the quotient is beyond every float").into()),
        },
        other => Ok(other),
    }
}

fn rem(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    whole_division(eval, args, |a, b| a % b, i64::checked_rem, remainder)
}

/// The remainder; NaN when `b` is infinite, as in `a - b * 0`.
fn remainder(a: f64, b: f64) -> f64 {
    if b.is_infinite() { f64::NAN } else { a % b }
}

fn modulo(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let small = |a: i64, b: i64| {
        a.checked_rem(b).map(|rest| {
            if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            }
        })
    };
    whole_division(
        eval,
        args,
        |a, b| a.mod_floor(b),
        small,
        |a, b| {
            let rest = remainder(a, b);
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                rest + b
            } else {
                rest
            }
        },
    )
}

fn abs(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(match number(&args[0])? {
        Number::Int(int) => int
            .checked_abs()
            .map_or_else(|| Value::integer(-BigInt::from(int)), Value::Int),
        Number::Big(int) => {
            reserve_bits(int.bits())?;
            whole(int.abs())?
        }
        Number::Float(float) => Value::Float(float.abs()),
    })
}

fn rounded(args: &mut [Value], round: fn(f64) -> f64) -> Result {
    match number(&args[0])? {
        Number::Float(float) => match BigInt::from_f64(round(float)) {
            Some(int) => whole(int),
            None => Ok(Value::Float(float)),
        },
        _ => Ok(std::mem::take(&mut args[0])),
    }
}

fn round(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    rounded(args, f64::round)
}

fn floor(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    rounded(args, f64::floor)
}

fn ceil(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    rounded(args, f64::ceil)
}

fn trunc(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    rounded(args, f64::trunc)
}

/// The integer value of a number or a character.
pub(super) fn long(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Value::Str(text) = &args[0] {
        // A character is its code point.
        let mut chars = text.chars();
        if let (Some(only), None) = (chars.next(), chars.next()) {
            // A program that writes (int "5") wants the number.
            if only.is_ascii_digit() {
                return Err(wrong_type("a number", &args[0]));
            }
            return Ok(Value::Int(i64::from(u32::from(only))));
        }
    }
    match rounded(args, f64::trunc)? {
        Value::Float(float) if float.is_nan() => Ok(Value::Int(0)),
        Value::Float(_) => Err(Kind::Arithmetic("an infinity is no integer").into()),
        whole => Ok(whole),
    }
}

pub(super) fn int(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match long(eval, args)? {
        Value::Int(int) if i32::try_from(int).is_ok() => Ok(Value::Int(int)),
        _ => Err(Kind::Arithmetic(
            "integer overflow: int takes numbers from -2147483648 to 2147483647",
        )
        .into()),
    }
}

fn double(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Float(number(&args[0])?.float()))
}

fn sqrt(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Float(number(&args[0])?.float().sqrt()))
}

fn signum(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let float = number(&args[0])?.float();
    // Zeros keep their sign, and NaN stays NaN.
    let sign = if float == 0.0 { float } else { float.signum() };
    Ok(Value::Float(sign))
}

/// Checks for two integers: floor division and modulus are not defined for floats.
fn integers(args: &[Value]) -> Result<()> {
    match args
        .iter()
        .find(|arg| !matches!(arg, Value::Int(_) | Value::BigInt(_)))
    {
        None => Ok(()),
        Some(other) => Err(wrong_type("an integer", other)),
    }
}

fn floor_mod(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    integers(args)?;
    modulo(eval, args)
}

fn floor_div(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    integers(args)?;
    let remainder = modulo(eval, &mut [args[0].clone(), args[1].clone()])?;
    let whole = minus(&args[0], &remainder)?;
    quot(eval, &mut [whole, args[1].clone()])
}

fn pow(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (base, exponent) = (number(&args[0])?.float(), number(&args[1])?.float());
    // As in Java, one to the power of NaN or infinity is NaN.
    if exponent.is_nan() || (base.abs() == 1.0 && exponent.is_infinite()) {
        return Ok(Value::Float(f64::NAN));
    }
    Ok(Value::Float(base.powf(exponent)))
}

/// The smallest or largest value; a NaN wins, and of equal values the first. Other kinds follow term order.
fn extreme(eval: &mut Eval<'_>, args: &mut [Value], better: std::cmp::Ordering) -> Result {
    eval.charge(args.len())?;
    super::order::comparable(args.iter())?;
    let mut best = 0;
    for at in 0..args.len() {
        if matches!(args[at], Value::Float(float) if float.is_nan()) {
            return Ok(Value::Float(f64::NAN));
        }
        if crate::value::term_cmp(&args[at], &args[best]) == better {
            best = at;
        }
    }
    Ok(std::mem::take(&mut args[best]))
}

fn max(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    extreme(eval, args, std::cmp::Ordering::Greater)
}

fn min(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    extreme(eval, args, std::cmp::Ordering::Less)
}

// --- bits

fn integer(value: &Value) -> Result<BigInt> {
    match value {
        Value::Int(int) => Ok(BigInt::from(*int)),
        Value::BigInt(int) => {
            clock::check(int.bits() as usize / 64)?;
            // A copy, and the result.
            reserve_bits(int.bits() * 2)?;
            Ok((**int).clone())
        }
        _ => Err(wrong_type("an integer", value)),
    }
}

fn bits(args: &[Value], small: fn(i64, i64) -> i64, large: fn(BigInt, BigInt) -> BigInt) -> Result {
    integer(&args[0])?;
    let mut result = args[0].clone();
    for arg in &args[1..] {
        result = match (&result, arg) {
            (Value::Int(a), Value::Int(b)) => Value::Int(small(*a, *b)),
            (a, b) => whole(large(integer(a)?, integer(b)?))?,
        };
    }
    Ok(result)
}

fn bit_and(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    bits(args, |a, b| a & b, |a, b| a & b)
}

fn bit_or(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    bits(args, |a, b| a | b, |a, b| a | b)
}

fn bit_xor(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    bits(args, |a, b| a ^ b, |a, b| a ^ b)
}

fn bit_and_not(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    bits(args, |a, b| a & !b, |a, b| a & not(b))
}

fn bit_not(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    whole(not(integer(&args[0])?))
}

fn not(int: BigInt) -> BigInt {
    -int - 1
}

/// The position of a bit, or a shift distance.
fn count(value: &Value) -> Result<u64> {
    match value {
        Value::Int(int) => u64::try_from(*int).map_err(|_| {
            bad_value(about(
                format!("expected a count of bits from 0, got {int}"),
                value,
            ))
        }),
        Value::BigInt(int) if int.sign() == Sign::Plus => Ok(u64::MAX),
        Value::BigInt(_) => Err(bad_value(about(
            "expected a count of bits from 0, got a negative integer",
            value,
        ))),
        _ => Err(wrong_type("an integer", value)),
    }
}

fn power_of_two(position: u64) -> Result<BigInt> {
    if position > INTEGER_BITS_MAX {
        return Err(Limit::Memory.into());
    }
    clock::check(position as usize / 64)?;
    reserve_bits(position)?;
    Ok(BigInt::from(1) << position)
}

fn bit_shift_left(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (int, count) = (integer(&args[0])?, count(&args[1])?);
    if int.is_zero() {
        return Ok(Value::Int(0));
    }
    if int.bits().saturating_add(count) > INTEGER_BITS_MAX {
        return Err(Limit::Memory.into());
    }
    reserve_bits(int.bits() + count)?;
    whole(int << count)
}

fn bit_shift_right(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (int, count) = (integer(&args[0])?, count(&args[1])?);
    if count >= int.bits() {
        return Ok(Value::Int(if int.is_negative() { -1 } else { 0 }));
    }
    whole(int >> count)
}

fn bit_test(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (int, position) = (integer(&args[0])?, count(&args[1])?);
    Ok(Value::Bool(if position >= int.bits() {
        int.is_negative()
    } else {
        int.bit(position)
    }))
}

fn bit_set(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    whole(integer(&args[0])? | power_of_two(count(&args[1])?)?)
}

fn bit_clear(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    whole(integer(&args[0])? & not(power_of_two(count(&args[1])?)?))
}

fn bit_flip(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    whole(integer(&args[0])? ^ power_of_two(count(&args[1])?)?)
}

/// An integer used as a count or index (`seqs.counts.integers`).
pub fn index(value: &Value) -> Result<i64> {
    match value {
        Value::Int(int) => Ok(*int),
        // Larger than any collection, so it acts like the end of one.
        Value::BigInt(int) => Ok(if int.is_negative() {
            i64::MIN
        } else {
            i64::MAX
        }),
        Value::Float(float) if float.fract() == 0.0 => Err(bad_value(about(
            format!(
                "expected an integer, got float {text}; an integral float is no count, use (int {text})",
                text = crate::print::float(*float)
            ),
            value,
        ))),
        _ => Err(wrong_type("an integer", value)),
    }
}

/// A count: negative ones act as zero (`seqs.counts.negative`).
pub fn amount(value: &Value) -> Result<usize> {
    Ok(usize::try_from(index(value)?.max(0)).unwrap_or(usize::MAX))
}
