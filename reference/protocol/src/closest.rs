//! "Did you mean": the known word that a mistyped key, flag or command stands for. Programs' own names have a stricter rule, in the
//! language.

/// The known word that is closest to a mistyped one; `None` when nothing is close.
pub fn closest_of<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (strsim::levenshtein(word, known), *known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}
