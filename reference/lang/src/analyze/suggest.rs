//! "Did you mean": the known name that takes the fewest edits: insertions, deletions, replacements, swaps of neighbours. Knows
//! nothing of scopes.

/// The closest of `known`, when it is close enough to be a slip of the hand.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let length = name.chars().count();
    if !(2..=40).contains(&length) {
        return None;
    }
    let allowed = if length <= 4 { 1 } else { 2 };
    // Of three letters there are too many names: only the same letters in another order are a slip.
    let letters = |name: &str| {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        letters
    };
    known
        .filter(|candidate| length > 3 || letters(candidate) == letters(name))
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|(distance, _)| (1..=allowed).contains(distance))
        // Two edits make of five letters almost any other word: a slip keeps how it begins, and leaves something out.
        .filter(|(distance, candidate)| {
            length > 5
                || *distance == 1
                || (candidate.chars().count() > length
                    && candidate.chars().next() == name.chars().next())
        })
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}
