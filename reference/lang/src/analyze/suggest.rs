//! "Did you mean": the known name with the smallest edit distance, counting insertions, deletions, replacements, and
//! swaps of neighbours. Knows nothing of scopes.

/// The closest of `known`, if it is close enough to be a typo.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let length = name.chars().count();
    if !(2..=40).contains(&length) {
        return None;
    }
    let allowed = if length <= 4 { 1 } else { 2 };
    // There are too many names of three letters: only the same letters in another order count as a typo.
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
        // Two edits turn five letters into almost any other word: a typo keeps the first letter, and leaves something
        // out.
        .filter(|(distance, candidate)| {
            length > 5
                || *distance == 1
                || (candidate.chars().count() > length
                    && candidate.chars().next() == name.chars().next())
        })
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}
