//! Writes strings and floats as JSON text.

/// Appends `text` as a JSON string: quotes, backslashes and control characters escaped, the rest as it is.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for piece in escaped(text) {
        out.extend_from_slice(piece.as_bytes());
    }
    out.push(b'"');
}

/// The content of the JSON string for `text`, in pieces. No piece is longer than 64 KiB, so that the writer can check a
/// clock in between.
pub fn escaped(text: &str) -> Escaped<'_> {
    Escaped {
        rest: text,
        controls: &UPPER_CASE,
    }
}

/// Like [`escaped`] with lower-case digits in escapes, for programs; frames use upper case.
pub fn escaped_in_lower_case(text: &str) -> Escaped<'_> {
    Escaped {
        rest: text,
        controls: &LOWER_CASE,
    }
}

/// Iterator over the pieces of a JSON string: parts of the text as they are, and escapes.
#[derive(Clone)]
pub struct Escaped<'a> {
    rest: &'a str,
    controls: &'static Controls,
}

/// Maximum bytes of one piece.
const PIECE_BYTES: usize = 64 * 1024;

impl<'a> Iterator for Escaped<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        let most = bytes.len().min(PIECE_BYTES);
        let plain = bytes[..most]
            .iter()
            .position(|&byte| escape(byte, self.controls).is_some());
        let (piece, rest) = match (plain, bytes.first()) {
            (_, None) => return None,
            (Some(0), Some(&byte)) => (escape(byte, self.controls)?, &self.rest[1..]),
            (Some(at), _) => self.rest.split_at(at),
            (None, _) => self.rest.split_at(self.rest.floor_char_boundary(most)),
        };
        self.rest = rest;
        Some(piece)
    }
}

/// The escape of a byte in a JSON string, if it needs one.
#[inline]
fn escape(byte: u8, controls: &'static Controls) -> Option<&'static str> {
    match byte {
        b'"' => Some("\\\""),
        b'\\' => Some("\\\\"),
        0..0x20 => Some(controls[usize::from(byte)]),
        _ => None,
    }
}

type Controls = [&'static str; 0x20];

/// The escapes of the control characters.
const UPPER_CASE: Controls = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b",
    "\\t", "\\n", "\\u000B", "\\f", "\\r", "\\u000E", "\\u000F", "\\u0010", "\\u0011", "\\u0012",
    "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001A",
    "\\u001B", "\\u001C", "\\u001D", "\\u001E", "\\u001F",
];

/// The same with lower-case digits, as `serde_json` and browsers write them.
const LOWER_CASE: Controls = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b",
    "\\t", "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012",
    "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a",
    "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
];

/// Appends a double as [`float`] writes it. Anything that is not finite becomes `null`.
pub fn write_float(out: &mut Vec<u8>, value: f64) {
    match value.is_finite() {
        true => out.extend_from_slice(float(value).as_bytes()),
        false => out.extend_from_slice(b"null"),
    }
}

/// The shortest text that reads back as the same double, always with a decimal point: whole numbers from 1 to below 1e16
/// in decimal notation, others in the shorter one. `value` must be finite.
pub fn float(value: f64) -> String {
    /// Larger whole numbers are written in scientific notation.
    const DECIMAL_BELOW: f64 = 1e16;
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let size = value.abs();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, ""));
    if exponent.is_empty() && (size == 0.0 || (0.01..DECIMAL_BELOW).contains(&size)) {
        return if text.contains('.') {
            text.to_owned()
        } else {
            format!("{text}.0")
        };
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    // The value is 0.DIGITS times ten to the power of `point`.
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let point = whole.len() as i32 + exponent.parse::<i32>().unwrap_or(0) - zeros as i32;
    digits.drain(..zeros);
    digits.truncate(digits.trim_end_matches('0').len().max(1));
    let (first, rest) = digits.split_at(1);
    let rest = if rest.is_empty() { "0" } else { rest };
    let scientific = format!("{sign}{first}.{rest}e{}", point - 1);
    if size >= DECIMAL_BELOW {
        return scientific;
    }
    let decimal = match usize::try_from(point) {
        Ok(point) if point >= digits.len() => {
            format!("{sign}{digits}{}.0", "0".repeat(point - digits.len()))
        }
        Ok(point) if point > 0 => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
        _ if point < -8 => return scientific,
        _ => format!(
            "{sign}0.{}{digits}",
            "0".repeat(point.unsigned_abs() as usize)
        ),
    };
    if size < 1.0 && scientific.len() < decimal.len() {
        scientific
    } else {
        decimal
    }
}
