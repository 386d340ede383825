//! The written forms of a secret that count as the secret. Knows encodings; knows nothing of matching.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// Base64 of a piece shorter than this many characters is too common in ordinary text to be scrubbed; a secret that short
/// is matched in base64 with its padding only.
const BASE64_CHARS_MIN: usize = 8;

/// Adds every form of `text` to `patterns`: raw, base64 (both alphabets, each alignment), percent-, JSON- and HTML-escaped.
pub(crate) fn collect(text: &str, patterns: &mut BTreeSet<String>) {
    if text.is_empty() {
        return;
    }
    let mut add = |form: String| {
        if !form.is_empty() {
            patterns.insert(form);
        }
    };
    add(text.to_owned());
    for form in base64_forms(text.as_bytes()) {
        add(form);
    }
    for (keep, space_is_plus) in PERCENT_KEEPS {
        for hex in HEX_DIGITS {
            add(percent(text, keep, *space_is_plus, hex));
        }
    }
    for style in JSON_STYLES {
        let once = json(text, style);
        // JSON text carried inside a JSON string is escaped twice.
        add(json(&once, style));
        add(once);
    }
    for style in HTML_STYLES {
        add(html(text, style));
    }
}

fn base64_forms(bytes: &[u8]) -> Vec<String> {
    let mut forms = vec![STANDARD.encode(bytes), URL_SAFE.encode(bytes)];
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        // A secret inside longer base64 text starts at bit 0, 8 or 16 of a 24-bit group; only the characters that no
        // neighbouring byte touches are certain.
        for lead in 0..3usize {
            let mut shifted = Zeroizing::new(vec![0u8; lead]);
            shifted.extend_from_slice(bytes);
            let encoded = Zeroizing::new(engine.encode(&*shifted));
            let first = [0, 2, 3][lead];
            let last = shifted.len() * 8 / 6;
            if last > first && last - first >= BASE64_CHARS_MIN {
                forms.push(encoded[first..last].to_owned());
            }
        }
    }
    forms
}

/// Bytes besides letters and digits that each percent-encoder in use leaves alone, and whether it writes a space as `+`.
const PERCENT_KEEPS: &[(&str, bool)] = &[
    ("-_.~", false),
    ("-_.!~*'()", false),
    ("-_.*", true),
    ("-_.~/", false),
];

const HEX_DIGITS: [&[u8; 16]; 2] = [b"0123456789ABCDEF", b"0123456789abcdef"];

fn percent(text: &str, keep: &str, space_is_plus: bool, hex: &[u8; 16]) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || keep.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else if byte == b' ' && space_is_plus {
            out.push('+');
        } else {
            out.push('%');
            out.push(char::from(hex[usize::from(byte >> 4)]));
            out.push(char::from(hex[usize::from(byte & 15)]));
        }
    }
    out
}

struct JsonStyle {
    slash: bool,
    ascii: bool,
    html_safe: bool,
    hex: &'static [u8; 16],
}

/// The ways in which JSON writers differ: `\/`, non-ASCII as `\u`, `<>&` as `\u`, and the case of hex digits.
const JSON_STYLES: &[JsonStyle] = &[
    JsonStyle {
        slash: false,
        ascii: false,
        html_safe: false,
        hex: HEX_DIGITS[1],
    },
    JsonStyle {
        slash: false,
        ascii: true,
        html_safe: false,
        hex: HEX_DIGITS[1],
    },
    JsonStyle {
        slash: false,
        ascii: true,
        html_safe: false,
        hex: HEX_DIGITS[0],
    },
    JsonStyle {
        slash: true,
        ascii: true,
        html_safe: false,
        hex: HEX_DIGITS[1],
    },
    JsonStyle {
        slash: true,
        ascii: false,
        html_safe: false,
        hex: HEX_DIGITS[1],
    },
    JsonStyle {
        slash: false,
        ascii: false,
        html_safe: true,
        hex: HEX_DIGITS[1],
    },
    JsonStyle {
        slash: false,
        ascii: true,
        html_safe: true,
        hex: HEX_DIGITS[0],
    },
];

fn json(text: &str, style: &JsonStyle) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '/' if style.slash => out.push_str("\\/"),
            '<' | '>' | '&' | '\'' if style.html_safe => push_u16(&mut out, c as u16, style.hex),
            c if (c as u32) < 0x20 || (style.ascii && !c.is_ascii()) => {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    push_u16(&mut out, *unit, style.hex);
                }
            }
            c => out.push(c),
        }
    }
    out
}

fn push_u16(out: &mut String, unit: u16, hex: &[u8; 16]) {
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.push(char::from(hex[usize::from((unit >> shift) & 15)]));
    }
}

/// `(", ', /)` as each HTML escaper in use writes them; `&`, `<` and `>` have one usual form.
const HTML_STYLES: &[(&str, &str, &str)] = &[
    ("&quot;", "&#39;", "/"),
    ("&quot;", "&#x27;", "/"),
    ("&quot;", "&apos;", "/"),
    ("&#34;", "&#39;", "/"),
    ("&quot;", "&#x27;", "&#x2F;"),
    ("&quot;", "'", "/"),
    ("\"", "'", "/"),
];

fn html(text: &str, (double, single, slash): &(&str, &str, &str)) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str(double),
            '\'' => out.push_str(single),
            '/' => out.push_str(slash),
            c => out.push(c),
        }
    }
    out
}
