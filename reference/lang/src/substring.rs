//! Finds text in text, in slices between which the clock is checked, however long either text is. Knows nothing of
//! graphemes.

use memchr::memmem::{Finder, FinderRev};

use crate::clock::WorkMeter;
use crate::error::Stop;

/// Longer texts are found with a rolling hash: the library would take too long to prepare a search for them.
const SHORT_BYTES_MAX: usize = 1_024;
/// The number of bytes that the library searches at once.
const WINDOW_BYTES: usize = 64 * 1024;
/// Bytes that are hashed between two calls of the meter; each byte counts as one step.
const SLICE_BYTES: usize = 8 * 1024;

/// A text to search for.
pub struct Needle<'n> {
    bytes: &'n [u8],
    short: Option<Finder<'n>>,
}

impl<'n> Needle<'n> {
    /// Prepares searches for `text`.
    pub fn new(text: &'n str) -> Needle<'n> {
        let bytes = text.as_bytes();
        let short = (bytes.len() <= SHORT_BYTES_MAX).then(|| Finder::new(bytes));
        Needle { bytes, short }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The position of the first occurrence in `text` at or after byte `from`.
    pub fn find(
        &self,
        text: &str,
        from: usize,
        meter: &mut dyn WorkMeter,
    ) -> Result<Option<usize>, Stop> {
        let text = &text.as_bytes()[from..];
        let Some(finder) = &self.short else {
            let found = find_by_hash::<false>(text, self.bytes, meter)?;
            return Ok(found.map(|at| from + at));
        };
        let mut start = 0;
        loop {
            // An occurrence across two windows is found in the first one.
            let end = text.len().min(start + WINDOW_BYTES + self.bytes.len());
            let found = finder.find(&text[start..end]);
            let searched = found.unwrap_or(end - start);
            meter.work(8 + (searched + self.bytes.len()) / 4)?;
            if let Some(at) = found {
                return Ok(Some(from + start + at));
            }
            if end == text.len() {
                return Ok(None);
            }
            start += WINDOW_BYTES;
        }
    }
}

/// The position of the last occurrence of `wanted` in `text`.
pub fn find_last(
    text: &str,
    wanted: &str,
    meter: &mut dyn WorkMeter,
) -> Result<Option<usize>, Stop> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    if wanted.len() > SHORT_BYTES_MAX {
        return find_by_hash::<true>(text, wanted, meter);
    }
    let finder = FinderRev::new(wanted);
    let mut end = text.len();
    loop {
        let start = end.saturating_sub(WINDOW_BYTES + wanted.len());
        meter.work(8 + (end - start) / 4)?;
        if let Some(at) = finder.rfind(&text[start..end]) {
            return Ok(Some(start + at));
        }
        if start == 0 {
            return Ok(None);
        }
        end -= WINDOW_BYTES;
    }
}

/// The position of the first occurrence of the long text `wanted`, or of the last one if `FROM_END`.
fn find_by_hash<const FROM_END: bool>(
    text: &[u8],
    wanted: &[u8],
    meter: &mut dyn WorkMeter,
) -> Result<Option<usize>, Stop> {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
    let byte = |text: &[u8], at: usize| {
        let at = if FROM_END { text.len() - 1 - at } else { at };
        u64::from(text[at]) + 1
    };
    let length = wanted.len();
    if length > text.len() {
        return Ok(None);
    }
    let (mut hash, mut here, mut power) = (0u64, 0u64, 1u64);
    for at in 0..length {
        hash = hash.wrapping_mul(BASE).wrapping_add(byte(wanted, at));
        here = here.wrapping_mul(BASE).wrapping_add(byte(text, at));
        if at > 0 {
            power = power.wrapping_mul(BASE);
        }
        if at % SLICE_BYTES == 0 {
            meter.work(SLICE_BYTES)?;
        }
    }
    for at in 0..=text.len() - length {
        if here == hash {
            let start = if FROM_END {
                text.len() - length - at
            } else {
                at
            };
            if eq_metered(&text[start..start + length], wanted, meter)? {
                return Ok(Some(start));
            }
        }
        if at + length < text.len() {
            let without = here.wrapping_sub(power.wrapping_mul(byte(text, at)));
            here = without
                .wrapping_mul(BASE)
                .wrapping_add(byte(text, at + length));
        }
        if at % SLICE_BYTES == 0 {
            meter.work(SLICE_BYTES)?;
        }
    }
    Ok(None)
}

/// Whether two texts of the same length are equal.
fn eq_metered(a: &[u8], b: &[u8], meter: &mut dyn WorkMeter) -> Result<bool, Stop> {
    for (a, b) in a.chunks(WINDOW_BYTES).zip(b.chunks(WINDOW_BYTES)) {
        meter.work(WINDOW_BYTES / 8)?;
        if a != b {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Unbounded;

    impl WorkMeter for Unbounded {
        fn work(&mut self, _: usize) -> Result<(), Stop> {
            Ok(())
        }

        fn reserve(&mut self, _: usize) -> Result<(), Stop> {
            Ok(())
        }
    }

    fn check(text: &str, wanted: &str) {
        let found = Needle::new(wanted).find(text, 0, &mut Unbounded).unwrap();
        assert_eq!(
            found,
            text.find(wanted),
            "{} in {}",
            wanted.len(),
            text.len()
        );
        let last = find_last(text, wanted, &mut Unbounded).unwrap();
        assert_eq!(
            last,
            text.rfind(wanted),
            "{} in {}",
            wanted.len(),
            text.len()
        );
        let hashed = find_by_hash::<false>(text.as_bytes(), wanted.as_bytes(), &mut Unbounded);
        assert_eq!(hashed.unwrap(), text.find(wanted));
    }

    #[test]
    fn searches_agree_with_std() {
        let long = "ab".repeat(70_000);
        for (text, wanted) in [
            ("", ""),
            ("abc", ""),
            ("abcabc", "bc"),
            ("aaaaab", "aab"),
            ("ab", "abc"),
            ("é🌊é", "é"),
        ] {
            check(text, wanted);
        }
        let seam =
            "x".repeat(WINDOW_BYTES - 2) + "needle" + &"x".repeat(WINDOW_BYTES) + "needle" + "y";
        check(&seam, "needle");
        check(&seam, "needles");
        check(&long, &"ba".repeat(600));
        check(&(long.clone() + "b" + &long), &("b".to_owned() + &long));
        check(&long, &(long.clone() + "x"));
        check(&long, &("a".to_owned() + &"ab".repeat(2_000)));
    }
}
