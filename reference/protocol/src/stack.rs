//! Native stack for walks over values, which nest as deep as a program makes them.

const RED_ZONE_BYTES: usize = 64 * 1024;
const GROWTH_BYTES: usize = 1024 * 1024;

/// Runs `walk`, on a stack of its own where little is left of this one.
pub fn grown<R>(walk: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RED_ZONE_BYTES, GROWTH_BYTES, walk)
}
