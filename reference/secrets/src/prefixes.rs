//! The beginnings of secrets as an Aho-Corasick automaton. Every byte is one step, whatever the secrets are: the target of a
//! byte that does not continue a beginning is in a table, not found by trying shorter and shorter beginnings. Follows text byte
//! by byte; knows nothing of escapes.

use zeroize::Zeroizing;

/// A state: the longest beginning of a secret that the text read so far ends with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PrefixState {
    node: u32,
    /// Its length in bytes.
    pub depth: u32,
}

/// The state of text that ends with no beginning of a secret.
pub(crate) const NO_PREFIX: PrefixState = PrefixState { node: 0, depth: 0 };

/// A node: one beginning. Nodes are numbered in the order of the sorted secrets, so that the first one that is a byte longer
/// comes next.
#[derive(Clone, Copy)]
struct Node {
    depth: u32,
    /// Bytes of the longest secret that it ends with.
    secret_len: u32,
    /// The targets of all bytes other than `next`.
    others: Table,
    /// The byte that leads to the next node, if any does.
    next: Option<u8>,
    /// The node's number in a numbering in which all nodes that end with this one have the numbers from `begins` up to `ends`.
    begins: u32,
    ends: u32,
}

/// The targets of bytes by their high bits: the index of a [`Block`] of blocks. Bytes without an entry lead to the root.
type Table = u32;
/// By the high or the low four bits of a byte: another block, or a node. A block is never modified once a table uses it, so
/// similar tables share most of their blocks.
type Block = [u32; 16];
/// The table without entries, and the block without entries.
const EMPTY: Table = 0;

pub(crate) struct Prefixes {
    nodes: Vec<Node>,
    blocks: Vec<Block>,
    /// The node of each secret.
    secret_nodes: Vec<u32>,
}

/// How a node is reached; needed only while the automaton is built.
struct Edge {
    from: u32,
    byte: u8,
}

impl Prefixes {
    /// `secrets`: in bytewise order, each once and none empty.
    pub fn new(secrets: &[Zeroizing<String>]) -> Self {
        let root = Node {
            depth: 0,
            secret_len: 0,
            others: EMPTY,
            next: None,
            begins: 0,
            ends: 0,
        };
        let mut prefixes = Self {
            nodes: vec![root],
            blocks: vec![[0; 16]],
            secret_nodes: Vec::with_capacity(secrets.len()),
        };
        let mut edges = vec![Edge { from: 0, byte: 0 }];
        // The nodes of the previous secret.
        let mut way: Vec<u32> = vec![0];
        let mut before: &[u8] = &[];
        for secret in secrets {
            let bytes = secret.as_bytes();
            let same = before
                .iter()
                .zip(bytes)
                .take_while(|(one, other)| one == other);
            way.truncate(same.count() + 1);
            for &byte in &bytes[way.len() - 1..] {
                let (from, node) = (way[way.len() - 1], prefixes.nodes.len() as u32);
                if from + 1 == node {
                    prefixes.nodes[from as usize].next = Some(byte);
                }
                let depth = way.len() as u32;
                prefixes.nodes.push(Node { depth, ..root });
                edges.push(Edge { from, byte });
                way.push(node);
            }
            let whole = way[way.len() - 1];
            prefixes.nodes[whole as usize].secret_len = bytes.len() as u32;
            prefixes.secret_nodes.push(whole);
            before = bytes;
        }
        prefixes.link(&edges);
        prefixes
    }

    /// Builds the table of every node in order of depth: the table of a longer beginning is based on those of shorter ones.
    fn link(&mut self, edges: &[Edge]) {
        let mut order: Vec<u32> = (0..edges.len() as u32).collect();
        order.sort_by_key(|node| self.nodes[*node as usize].depth);
        // The edges that lead elsewhere than to the next node.
        let mut branches: Vec<u32> = (1..edges.len() as u32)
            .filter(|node| edges[*node as usize].from + 1 != *node)
            .collect();
        branches.sort_by_key(|node| edges[*node as usize].from);
        // For each node: the longest shorter beginning that it ends with, and, built on demand, the table of all its bytes.
        let mut shorter = vec![0; edges.len()];
        let mut all: Vec<Option<Table>> = vec![None; edges.len()];
        for &node in &order {
            let Edge { from, byte } = edges[node as usize];
            let ends_with = match self.nodes[node as usize].depth {
                0 | 1 => 0,
                _ => {
                    let shorter = shorter[from as usize];
                    self.child(shorter, byte)
                }
            };
            shorter[node as usize] = ends_with;
            let mut table = match node {
                0 => EMPTY,
                _ => self.table_of_all(ends_with, &mut all),
            };
            let first = branches.partition_point(|branch| edges[*branch as usize].from < node);
            let branches = branches[first..].iter();
            let new = self.blocks.len();
            for &branch in branches.take_while(|branch| edges[**branch as usize].from == node) {
                table = self.with(table, edges[branch as usize].byte, branch, new);
            }
            let says = self.nodes[ends_with as usize].secret_len;
            let node = &mut self.nodes[node as usize];
            node.others = table;
            // A secret that ends here is longer than the others that it ends with.
            node.secret_len = node.secret_len.max(says);
        }
        // Numbers the tree in which each node is a child of the longest beginning that it ends with: first the size of each
        // subtree, then where each begins.
        for &node in order.iter().rev() {
            self.nodes[node as usize].ends += 1;
            if node > 0 {
                let below = self.nodes[node as usize].ends;
                self.nodes[shorter[node as usize] as usize].ends += below;
            }
        }
        let mut free = vec![0; edges.len()];
        for &node in &order {
            let shorter = shorter[node as usize] as usize;
            let count = self.nodes[node as usize].ends;
            let begins = free[shorter];
            free[shorter] += count;
            free[node as usize] = begins + 1;
            let node = &mut self.nodes[node as usize];
            (node.begins, node.ends) = (begins, begins + count);
        }
    }

    /// The targets of all bytes from a node whose own table is built, including the one to the next node.
    fn table_of_all(&mut self, node: u32, all: &mut [Option<Table>]) -> Table {
        if let Some(table) = all[node as usize] {
            return table;
        }
        let Node { others, next, .. } = self.nodes[node as usize];
        let table = match next {
            Some(byte) => self.with(others, byte, node + 1, self.blocks.len()),
            None => others,
        };
        all[node as usize] = Some(table);
        table
    }

    /// `table` with `byte` leading to `node`. Blocks from `new` on are used by no other table.
    fn with(&mut self, table: Table, byte: u8, node: u32, new: usize) -> Table {
        let table = self.writable(table, new);
        let (high, low) = halves(byte);
        let block = self.writable(self.blocks[table as usize][high], new);
        self.blocks[table as usize][high] = block;
        self.blocks[block as usize][low] = node;
        table
    }

    /// A block that may be modified: `block`, or a copy of it.
    fn writable(&mut self, block: u32, new: usize) -> u32 {
        if block as usize >= new {
            return block;
        }
        self.blocks.push(self.blocks[block as usize]);
        self.blocks.len() as u32 - 1
    }

    /// The node that `byte` leads to.
    fn child(&self, node: u32, byte: u8) -> u32 {
        let Node { others, next, .. } = self.nodes[node as usize];
        if next == Some(byte) {
            return node + 1;
        }
        let (high, low) = halves(byte);
        self.blocks[self.blocks[others as usize][high] as usize][low]
    }

    pub fn len(&self) -> usize {
        self.secret_nodes.len()
    }

    /// Bytes that the tables occupy.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
            + self.blocks.len() * size_of::<Block>()
            + self.secret_nodes.len() * size_of::<u32>()
    }

    /// Whether the text of `state` ends with the text of `other`.
    pub fn ends_with(&self, state: PrefixState, other: PrefixState) -> bool {
        let other = &self.nodes[other.node as usize];
        (other.begins..other.ends).contains(&self.nodes[state.node as usize].begins)
    }

    /// Whether a secret begins with `byte`.
    pub fn begins(&self, byte: u8) -> bool {
        self.child(0, byte) != 0
    }

    /// The state after a whole secret.
    pub fn after_secret(&self, secret: usize) -> PrefixState {
        self.at(self.secret_nodes[secret])
    }

    /// Bytes of the longest secret that the text of `state` ends with; 0 when it ends with none.
    pub fn secret_len(&self, state: PrefixState) -> u32 {
        self.nodes[state.node as usize].secret_len
    }

    /// The state after the text of `state` followed by `byte`.
    pub fn next(&self, state: PrefixState, byte: u8) -> PrefixState {
        self.at(self.child(state.node, byte))
    }

    fn at(&self, node: u32) -> PrefixState {
        let depth = self.nodes[node as usize].depth;
        PrefixState { node, depth }
    }
}

fn halves(byte: u8) -> (usize, usize) {
    (usize::from(byte >> 4), usize::from(byte & 0xF))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against the definition: the longest beginning of a secret, and the longest secret, that the text ends with.
    #[test]
    fn every_byte_leads_to_the_longest_prefix() {
        let mut random = fastrand::Rng::with_seed(5);
        for round in 0..400 {
            // Few letters, so that beginnings are contained in one another; and bytes from both halves of the table.
            let letters: &[char] = [&['a', 'b'][..], &['a', 'q', 'A', '0', 'ä', 'Ä']][round % 2];
            let mut word = |most: usize| -> String {
                let length = random.usize(1..=most);
                (0..length).filter_map(|_| random.choice(letters)).collect()
            };
            let mut secrets: Vec<String> = (0..1 + round % 12).map(|_| word(9)).collect();
            let text = word(60);
            secrets.sort();
            secrets.dedup();
            let own: Vec<_> = secrets.iter().cloned().map(Zeroizing::new).collect();
            let prefixes = Prefixes::new(&own);
            let mut state = NO_PREFIX;
            for (at, byte) in text.bytes().enumerate() {
                state = prefixes.next(state, byte);
                let read = &text.as_bytes()[..=at];
                let beginnings = secrets.iter().flat_map(|secret| {
                    let all = 1..=secret.len();
                    all.map(|end| &secret.as_bytes()[..end])
                });
                let longest = |found: Option<usize>| found.unwrap_or(0) as u32;
                let ends = |piece: &&[u8]| read.ends_with(piece);
                let begun = beginnings.filter(ends).map(<[u8]>::len).max();
                assert_eq!(
                    state.depth,
                    longest(begun),
                    "{secrets:?} in {text:?} at {at}"
                );
                let whole = secrets.iter().map(|secret| secret.as_bytes());
                let said = whole.filter(ends).map(<[u8]>::len).max();
                assert_eq!(
                    prefixes.secret_len(state),
                    longest(said),
                    "{secrets:?}, {text:?}, {at}"
                );
            }
            let mut states = vec![(NO_PREFIX, String::new())];
            for secret in &secrets {
                let (mut state, mut read) = (NO_PREFIX, String::new());
                for character in secret.chars() {
                    read.push(character);
                    let mut bytes = [0; 4];
                    for byte in character.encode_utf8(&mut bytes).bytes() {
                        state = prefixes.next(state, byte);
                    }
                    states.push((state, read.clone()));
                }
            }
            for (one, read) in &states {
                for (other, end) in &states {
                    assert_eq!(prefixes.ends_with(*one, *other), read.ends_with(end));
                }
            }
            for (index, secret) in secrets.iter().enumerate() {
                assert_eq!(prefixes.after_secret(index).depth as usize, secret.len());
            }
        }
    }
}
