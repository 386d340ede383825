//! Stack space for walks over values, which may be nested as deep as a program likes.

const RED_ZONE_BYTES: usize = 64 * 1024;
const GROWTH_BYTES: usize = 1024 * 1024;

/// Runs `walk`, on a new stack when little is left of the current one.
pub fn with_room<R>(walk: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RED_ZONE_BYTES, GROWTH_BYTES, walk)
}
