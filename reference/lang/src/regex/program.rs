//! Patterns as instructions over characters, which both of our own engines execute. Knows no syntax.

use std::collections::HashMap;

use regex_syntax::hir::ClassUnicode;
use regex_syntax::is_word_character;

use super::parse::{Assert, Greed, Node};
use crate::clock;

/// The index of an instruction.
pub type Pc = usize;

/// One instruction. Unless its comment says otherwise, execution continues with the next one.
#[derive(Clone, Copy, Debug)]
pub enum Inst {
    Char(char),
    /// Consumes a character of a set.
    Set(usize),
    /// Continues at the first place, and at the second if the first does not lead to a match.
    Split(Pc, Pc),
    Jump(Pc),
    /// Stores the position in a slot.
    Save(usize),
    /// Continues if the assertion holds.
    Assert(Assert),
    /// The match, or the body of a look-around or an atomic group, is complete.
    Done,
    /// Consumes the text that a group matched.
    Backref {
        group: usize,
        /// Whether case is ignored.
        folded: bool,
    },
    /// Matches the body that follows by itself, then continues at `next`; the first match of the body is kept.
    Atomic {
        next: Pc,
    },
    /// Tests whether the body that follows matches here, then continues at `next`.
    Look {
        /// Whether it is a look-ahead rather than a look-behind.
        ahead: bool,
        /// Whether it holds when the body does not match.
        negative: bool,
        /// The least number of characters that the body consumes.
        min: usize,
        /// The largest number of characters that the body consumes; `usize::MAX` when unknown.
        max: usize,
        next: Pc,
    },
    /// Consumes characters of a set repeatedly.
    Run {
        set: usize,
        /// The least number of characters.
        min: usize,
        /// The largest number of characters.
        max: usize,
        greed: Greed,
    },
    /// Begins an iteration that may match the empty string, and stores the position in a mark.
    Mark(usize),
    /// Leaves the loop if the iteration consumed nothing.
    Unless {
        /// The mark that holds the beginning of the iteration.
        mark: usize,
        exit: Pc,
    },
}

/// A set of characters.
#[derive(Debug, PartialEq, Eq)]
pub struct CharSet {
    ascii: u128,
    ranges: Box<[(char, char)]>,
}

impl CharSet {
    fn new(class: &ClassUnicode) -> CharSet {
        let mut ascii = 0;
        let mut ranges = Vec::new();
        for range in class.ranges() {
            let (start, end) = (u32::from(range.start()), u32::from(range.end()));
            for code in start..=end.min(127) {
                ascii |= 1u128 << code;
            }
            if end > 127 {
                ranges.push((range.start().max('\u{80}'), range.end()));
            }
        }
        CharSet {
            ascii,
            ranges: ranges.into(),
        }
    }

    /// Whether the set contains `character`.
    #[inline]
    pub fn contains(&self, character: char) -> bool {
        if character.is_ascii() {
            return self.ascii >> u32::from(character) & 1 == 1;
        }
        self.ranges
            .binary_search_by(|(start, end)| {
                if *end < character {
                    std::cmp::Ordering::Less
                } else if *start > character {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
    }
}

#[derive(Debug)]
pub struct Program {
    /// The instructions; execution starts at the first.
    pub insts: Vec<Inst>,
    /// The sets of characters that instructions refer to.
    pub sets: Vec<CharSet>,
    /// The number of slots: the start and end of the match and of each group.
    pub slots: usize,
    /// The number of marks.
    pub marks: usize,
    /// The index of the first state of each instruction in a list of all states, and finally the length of that list:
    /// see [`Program::state`].
    states: Vec<usize>,
    /// The characters that a match may begin with; `None` when it may begin with any, or be empty.
    pub first: Option<CharSet>,
}

impl Program {
    /// Compiles `node`, which has `groups` groups.
    pub fn new(node: &Node, groups: usize) -> Program {
        let mut compiler = Compiler {
            insts: Vec::new(),
            sets: Vec::new(),
            set_of: HashMap::new(),
            states: vec![0],
            marks: 0,
            open: 0,
            plain: node.is_plain(),
        };
        compiler.emit(node);
        compiler.push(Inst::Done);
        let mut first = ClassUnicode::empty();
        let first = (!collect_first_chars(node, &mut first)).then(|| CharSet::new(&first));
        Program {
            insts: compiler.insts,
            sets: compiler.sets,
            slots: 2 * (groups + 1),
            marks: compiler.marks,
            states: compiler.states,
            first,
        }
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.states[self.insts.len()]
    }

    /// The state of a thread at `place` for which the `taken` outermost iterations around `place` have consumed
    /// something; only iterations that may match the empty string count. An iteration inside one that has consumed
    /// nothing has consumed nothing either, so one number describes them all. Threads in the same state continue alike.
    pub fn state(&self, pc: Pc, taken: usize) -> usize {
        self.states[pc] + taken
    }

    /// The number of enclosing iterations whose progress makes a difference at `place`.
    pub fn rounds(&self, pc: Pc) -> usize {
        self.states[pc + 1] - self.states[pc] - 1
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let sets = self.sets.iter().chain(&self.first);
        self.insts.capacity() * size_of::<Inst>()
            + self.states.capacity() * size_of::<usize>()
            + self.sets.capacity() * size_of::<CharSet>()
            + sets.map(|set| size_of_val(&*set.ranges)).sum::<usize>()
    }
}

/// Adds the characters that `node` may begin with. Returns true if it may match without consuming anything, or begin
/// with any character.
fn collect_first_chars(node: &Node, first: &mut ClassUnicode) -> bool {
    match node {
        Node::Empty | Node::Assert(_) | Node::Look { .. } => true,
        Node::Backref { .. } => {
            let mut any = ClassUnicode::empty();
            any.negate();
            first.union(&any);
            true
        }
        Node::Char(character) => {
            first.push(regex_syntax::hir::ClassUnicodeRange::new(
                *character, *character,
            ));
            false
        }
        Node::Class(class) => {
            first.union(class);
            false
        }
        Node::Cat(nodes) => nodes.iter().all(|node| collect_first_chars(node, first)),
        Node::Alt(nodes) => {
            let mut open = false;
            for node in nodes {
                // Each branch adds its own first characters.
                open |= collect_first_chars(node, first);
            }
            open
        }
        Node::Group(_, node) | Node::Atomic(node) => collect_first_chars(node, first),
        Node::Repeat { node, min, max, .. } => {
            *max == Some(0) || collect_first_chars(node, first) || *min == 0
        }
    }
}

struct Compiler {
    insts: Vec<Inst>,
    sets: Vec<CharSet>,
    /// The sets of known classes, by address: an expanded repetition compiles the same class repeatedly.
    set_of: HashMap<*const ClassUnicode, usize>,
    states: Vec<usize>,
    marks: usize,
    /// The number of enclosing iterations that may match the empty string.
    open: usize,
    /// Whether to avoid instructions that only the backtracking engine executes.
    plain: bool,
}

impl Compiler {
    fn push(&mut self, inst: Inst) {
        self.insts.push(inst);
        let rounds = match inst {
            // After such an instruction, every enclosing iteration has consumed something.
            Inst::Char(_) | Inst::Set(_) => 0,
            _ => self.open,
        };
        self.states
            .push(self.states[self.insts.len() - 1] + rounds + 1);
    }

    fn emit(&mut self, node: &Node) {
        /// Metered steps per node.
        const NODE_STEPS: usize = 32;
        // Compilation continues even after a limit was reached; the size of a pattern bounds the work.
        clock::may_continue(NODE_STEPS);
        match node {
            Node::Empty => {}
            Node::Char(character) => self.push(Inst::Char(*character)),
            Node::Class(class) => {
                let set = self.set_of(class);
                self.push(Inst::Set(set));
            }
            Node::Assert(assert) => self.push(Inst::Assert(*assert)),
            Node::Cat(nodes) => nodes.iter().for_each(|node| self.emit(node)),
            Node::Alt(nodes) => {
                let mut ends = Vec::with_capacity(nodes.len());
                for (at, node) in nodes.iter().enumerate() {
                    let split = self.insts.len();
                    let last = at + 1 == nodes.len();
                    if !last {
                        self.push(Inst::Split(split + 1, 0));
                    }
                    self.emit(node);
                    if !last {
                        ends.push(self.insts.len());
                        self.push(Inst::Jump(0));
                        self.insts[split] = Inst::Split(split + 1, self.insts.len());
                    }
                }
                for end in ends {
                    self.insts[end] = Inst::Jump(self.insts.len());
                }
            }
            Node::Group(group, node) => {
                self.push(Inst::Save(2 * group));
                self.emit(node);
                self.push(Inst::Save(2 * group + 1));
            }
            Node::Repeat {
                node,
                min,
                max,
                greed,
            } => self.repeat(node, *min, *max, *greed),
            Node::Atomic(node) => self.body(node, |next| Inst::Atomic { next }),
            Node::Look {
                ahead,
                negative,
                node,
            } => {
                let (min, max) = node.width();
                self.body(node, |next| Inst::Look {
                    ahead: *ahead,
                    negative: *negative,
                    min,
                    max: max.unwrap_or(usize::MAX),
                    next,
                });
            }
            Node::Backref { group, folded } => self.push(Inst::Backref {
                group: *group,
                folded: *folded,
            }),
        }
    }

    /// A body that is matched by itself, after the instruction that `head` makes.
    fn body(&mut self, node: &Node, head: impl FnOnce(Pc) -> Inst) {
        let start = self.insts.len();
        self.push(Inst::Done);
        self.emit(node);
        self.push(Inst::Done);
        self.insts[start] = head(self.insts.len());
    }

    fn repeat(&mut self, node: &Node, min: u32, max: Option<u32>, greed: Greed) {
        if !self.plain
            && let Node::Char(_) | Node::Class(_) = node
        {
            let set = match node {
                Node::Class(class) => self.set_of(class),
                Node::Char(character) => self.set(CharSet::new(&ClassUnicode::new([
                    regex_syntax::hir::ClassUnicodeRange::new(*character, *character),
                ]))),
                _ => return,
            };
            self.push(Inst::Run {
                set,
                min: min as usize,
                max: max.map_or(usize::MAX, |max| max as usize),
                greed,
            });
            return;
        }
        if greed == Greed::Possessive {
            let start = self.insts.len();
            self.push(Inst::Done);
            self.repeat(node, min, max, Greed::Greedy);
            self.push(Inst::Done);
            self.insts[start] = Inst::Atomic {
                next: self.insts.len(),
            };
            return;
        }
        // An iteration that consumes nothing ends its loop, as in Java, even if fewer than `min` came before it.
        let empty = node.width().0 == 0;
        let mut exits = Vec::new();
        match max {
            None if empty || min > 0 => {
                // A loop whose body may match the empty string has at least one iteration, behind an optional choice.
                for _ in 1..min {
                    self.iteration(node, empty, &mut exits);
                }
                let choice = (min == 0).then(|| self.choice());
                let start = self.insts.len();
                self.iteration(node, empty, &mut exits);
                let exit = self.insts.len() + 1;
                self.push(split(greed, start, exit));
                if let Some(choice) = choice {
                    self.insts[choice] = split(greed, choice + 1, exit);
                }
            }
            None => {
                let choice = self.choice();
                self.emit(node);
                self.push(Inst::Jump(choice));
                self.insts[choice] = split(greed, choice + 1, self.insts.len());
            }
            Some(max) => {
                let mut choices = Vec::new();
                for at in 0..max {
                    if at >= min {
                        choices.push(self.choice());
                    }
                    // Whatever the last iteration consumes, the loop ends.
                    self.iteration(node, empty && at + 1 < max, &mut exits);
                }
                for choice in choices {
                    self.insts[choice] = split(greed, choice + 1, self.insts.len());
                }
            }
        }
        let end = self.insts.len();
        for at in exits {
            if let Inst::Unless { exit, .. } = &mut self.insts[at] {
                *exit = end;
            }
        }
    }

    /// An iteration of `node`. If it is `marked`, it leaves the loop when it consumes nothing, by an instruction that is
    /// added to `exits`, to be filled in later.
    fn iteration(&mut self, node: &Node, marked: bool, exits: &mut Vec<Pc>) {
        if !marked {
            self.emit(node);
            return;
        }
        let mark = self.marks;
        self.marks += 1;
        self.push(Inst::Mark(mark));
        self.open += 1;
        self.emit(node);
        exits.push(self.insts.len());
        self.push(Inst::Unless { mark, exit: 0 });
        self.open -= 1;
    }

    /// A placeholder for a choice that is filled in later.
    fn choice(&mut self) -> Pc {
        self.push(Inst::Done);
        self.insts.len() - 1
    }

    fn set_of(&mut self, class: &ClassUnicode) -> usize {
        let address = std::ptr::from_ref(class);
        if let Some(set) = self.set_of.get(&address) {
            return *set;
        }
        let set = self.set(CharSet::new(class));
        self.set_of.insert(address, set);
        set
    }

    fn set(&mut self, set: CharSet) -> usize {
        // Repetitions produce the same set again and again.
        match self.sets.iter().rposition(|known| *known == set) {
            Some(at) => at,
            None => {
                self.sets.push(set);
                self.sets.len() - 1
            }
        }
    }
}

/// A choice between the loop body and its exit, in the order of preference.
fn split(greed: Greed, inside: Pc, exit: Pc) -> Inst {
    match greed {
        Greed::Lazy => Inst::Split(exit, inside),
        _ => Inst::Split(inside, exit),
    }
}

/// Whether `assert` holds at byte `at` of `text` after a match that ended at `previous`.
pub fn holds(assert: Assert, text: &str, at: usize, previous: usize) -> bool {
    let bytes = text.as_bytes();
    match assert {
        Assert::Start => at == 0,
        Assert::End => at == text.len(),
        Assert::EndOrLineFeed => at == text.len() || at + 1 == text.len() && bytes[at] == b'\n',
        // No line begins after the final line feed.
        Assert::LineStart => at == 0 || at < text.len() && bytes[at - 1] == b'\n',
        Assert::LineEnd => at == text.len() || bytes[at] == b'\n',
        Assert::Word => word_around(text, at),
        Assert::NotWord => !word_around(text, at),
        Assert::Continue => at == previous,
    }
}

/// Whether there is a word boundary at `at`.
fn word_around(text: &str, at: usize) -> bool {
    let before = text[..at]
        .chars()
        .next_back()
        .is_some_and(is_word_character);
    let after = text[at..].chars().next().is_some_and(is_word_character);
    before != after
}
