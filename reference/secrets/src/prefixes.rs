//! The beginnings of secrets as an automaton after Aho and Corasick: over the sorted list of secrets, so that a state is a range of
//! it. Follows text byte by byte; knows nothing of escapes.

use std::ops::Range;

use zeroize::Zeroizing;

/// What was read last and begins a secret: `depth` bytes that the secrets from `low` to before `high` have in common, and no other
/// has. All that reads the same is the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Beginning {
    low: u32,
    high: u32,
    pub depth: u32,
}

/// Nothing that begins a secret.
pub(crate) const NOTHING: Beginning = Beginning {
    low: 0,
    high: 0,
    depth: 0,
};

/// Of one beginning.
#[derive(Clone, Copy)]
struct Link {
    /// The longest other beginning that it ends with.
    shorter: Beginning,
    /// The longest of those that doesn't go on with the one byte that this goes on with: a byte that did not fit here won't fit
    /// at any between the two. A secret of one letter would otherwise be gone through down to its first for each other letter.
    otherwise: Beginning,
    /// Bytes of the longest secret that it ends with.
    says: u32,
}

pub(crate) struct Prefixes {
    /// In bytewise order, each once and none empty.
    secrets: Vec<Zeroizing<String>>,
    /// By first byte: the secrets that begin with it.
    first: Vec<Range<u32>>,
    /// Where the links of each secret begin; there is one for each byte. Those of what an earlier secret begins with as well are
    /// never looked at.
    links_at: Vec<u32>,
    links: Vec<Link>,
    /// Behind the last one of the secrets that begin with each.
    longer: Vec<u32>,
}

impl Prefixes {
    /// `secrets`: in bytewise order, each once and none empty.
    pub fn new(secrets: Vec<Zeroizing<String>>) -> Self {
        let total: usize = secrets.iter().map(|secret| secret.len()).sum();
        let mut prefixes = Self {
            first: vec![0..0; 256],
            links_at: Vec::with_capacity(secrets.len()),
            links: vec![
                Link {
                    shorter: NOTHING,
                    otherwise: NOTHING,
                    says: 0
                };
                total
            ],
            longer: (1..).take(secrets.len()).collect(),
            secrets,
        };
        let mut links = 0;
        for (index, secret) in (0..).zip(&prefixes.secrets) {
            let begin = &mut prefixes.first[usize::from(secret.as_bytes()[0])];
            *begin = match begin.end {
                0 => index..index + 1,
                _ => begin.start..index + 1,
            };
            prefixes.links_at.push(links);
            links += secret.len() as u32;
        }
        prefixes.link();
        prefixes
    }

    /// Links every beginning, the shortest first: a longer one's stands on those.
    fn link(&mut self) {
        // Of each secret the beginning that was linked last.
        let mut reached = vec![NOTHING; self.secrets.len()];
        for depth in 0.. {
            let mut longer_ones = false;
            for (index, reached) in reached.iter_mut().enumerate() {
                let Some(&byte) = self.secrets[index].as_bytes().get(depth) else {
                    continue;
                };
                longer_ones = true;
                let before = *reached;
                let Some(state) = self.goes_on(before, byte) else {
                    continue;
                };
                *reached = state;
                // What several secrets begin with is linked once.
                if state.low as usize != index {
                    continue;
                }
                let shorter = match before.depth {
                    0 => NOTHING,
                    _ => self.behind(self.link_of(before).shorter, byte, &mut 0),
                };
                let says = match self.secrets[index].len() == depth + 1 {
                    true => {
                        self.longer[index] = state.high;
                        state.depth
                    }
                    false => self.says(shorter),
                };
                let at = self.links_at[index] as usize + depth;
                self.links[at] = Link {
                    shorter,
                    otherwise: self.otherwise(state, shorter),
                    says,
                };
            }
            if !longer_ones {
                return;
            }
        }
    }

    /// How many secrets there are.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Bytes that the tables occupy.
    pub fn memory_bytes(&self) -> usize {
        self.links.len() * size_of::<Link>()
            + self.first.len() * size_of::<Range<u32>>()
            + self.secrets.len() * 2 * size_of::<u32>()
    }

    /// Whether a secret begins with `byte`.
    pub fn begins(&self, byte: u8) -> bool {
        self.first[usize::from(byte)].end > 0
    }

    /// All of a secret.
    pub fn whole(&self, secret: usize) -> Beginning {
        Beginning {
            low: secret as u32,
            high: self.longer[secret],
            depth: self.secrets[secret].len() as u32,
        }
    }

    /// Bytes of the longest secret that what was read ends with; 0 when it ends with none.
    pub fn says(&self, state: Beginning) -> u32 {
        match state.depth {
            0 => 0,
            _ => self.link_of(state).says,
        }
    }

    /// What begins a secret of what was read up to `state`, and `byte` behind it. Adds to `steps` how much work that was.
    pub fn behind(&self, mut state: Beginning, byte: u8, steps: &mut u32) -> Beginning {
        loop {
            // Among many secrets the next byte is searched for.
            *steps += 1 + (state.high - state.low).max(1).ilog2();
            if let Some(longer) = self.goes_on(state, byte) {
                return longer;
            }
            if state.depth == 0 {
                return NOTHING;
            }
            state = self.link_of(state).otherwise;
        }
    }

    /// Where to go on from `state` with a byte that doesn't fit there; its links are made last.
    fn otherwise(&self, state: Beginning, shorter: Beginning) -> Beginning {
        let next = |state: Beginning| {
            self.secrets[state.low as usize]
                .as_bytes()
                .get(state.depth as usize)
        };
        let alone = |state: Beginning| state.high - state.low == 1;
        match shorter.depth > 0 && alone(state) && alone(shorter) && next(state) == next(shorter) {
            true => self.link_of(shorter).otherwise,
            false => shorter,
        }
    }

    fn link_of(&self, state: Beginning) -> &Link {
        &self.links[(self.links_at[state.low as usize] + state.depth - 1) as usize]
    }

    /// The state behind `byte`, when a secret goes on so.
    fn goes_on(&self, state: Beginning, byte: u8) -> Option<Beginning> {
        let depth = state.depth as usize;
        let next = |secret: &Zeroizing<String>| secret.as_bytes().get(depth).copied();
        let (low, high) = match state.depth {
            0 => {
                let first = &self.first[usize::from(byte)];
                (first.start, first.end)
            }
            _ if state.high - state.low == 1 => {
                let only = next(&self.secrets[state.low as usize]) == Some(byte);
                (state.low, state.low + u32::from(only))
            }
            _ => {
                let range = &self.secrets[state.low as usize..state.high as usize];
                let low = range.partition_point(|secret| next(secret) < Some(byte));
                let rest = &range[low..];
                let count = rest.partition_point(|secret| next(secret) == Some(byte));
                let low = state.low + low as u32;
                (low, low + count as u32)
            }
        };
        (low < high).then_some(Beginning {
            low,
            high,
            depth: state.depth + 1,
        })
    }
}
