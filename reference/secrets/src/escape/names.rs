//! HTML's entity names, found by hash letter by letter.

use std::sync::LazyLock;

/// HTML's entity names.
pub(super) struct Names {
    /// By hash: one plus the index of an entity.
    slots: Vec<u16>,
}

pub(super) static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut slots = vec![0; Names::SLOTS];
    for (number, (name, _)) in (1..).zip(Names::all()) {
        let mut slot = Names::slot(Names::hash_of(name));
        while slots[slot] != 0 {
            slot = (slot + 1) % Names::SLOTS;
        }
        slots[slot] = number;
    }
    Names { slots }
});

impl Names {
    const SLOTS: usize = 1 << 13;

    /// Every name without `&`, with the semicolon where it has one, and its characters.
    pub(super) fn all() -> impl Iterator<Item = (&'static [u8], &'static str)> {
        let name = |entity: &entities::Entity| (&entity.entity.as_bytes()[1..], entity.characters);
        entities::ENTITIES.iter().map(name)
    }

    /// The hash of a string with hash `before`, extended by `byte`.
    pub(super) fn hash(before: u32, byte: u8) -> u32 {
        (before ^ u32::from(byte))
            .wrapping_mul(0x9E37_79B1)
            .rotate_left(7)
    }

    fn slot(hash: u32) -> usize {
        hash as usize % Self::SLOTS
    }

    /// The characters that the name stands for.
    pub(super) fn of(&self, name: &[u8]) -> Option<&'static str> {
        self.get(Self::hash_of(name), name)
    }

    fn hash_of(name: &[u8]) -> u32 {
        name.iter().fold(0, |hash, byte| Self::hash(hash, *byte))
    }

    /// The same for a name with a known hash.
    pub(super) fn get(&self, hash: u32, name: &[u8]) -> Option<&'static str> {
        let mut slot = Self::slot(hash);
        while let Some(number) = usize::from(self.slots[slot]).checked_sub(1) {
            let entity = &entities::ENTITIES[number];
            if &entity.entity.as_bytes()[1..] == name {
                return Some(entity.characters);
            }
            slot = (slot + 1) % Self::SLOTS;
        }
        None
    }
}
