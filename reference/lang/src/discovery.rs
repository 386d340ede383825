//! The language's documentation of itself: every builtin, special form and Java member by reference.
//! Derived from the tables; knows no upstreams.

use std::sync::LazyLock;

use crate::analyze::SPECIAL_FORMS;
use crate::builtins::{self, Builtin, Home, NAMESPACES, Namespace, Section};
use crate::heap;
use crate::rank::{Indexed, Query, tokens};

/// Something that a program can look up.
pub struct Entry {
    /// Its own reference, as listings show it.
    pub reference: String,
    pub name: &'static str,
    /// The full name of its namespace or class.
    pub namespace: &'static str,
    /// `ptc-builtin` or `java-interop`
    pub kind: &'static str,
    /// Where listings put it.
    pub section: &'static str,
    /// How it is called.
    pub signatures: &'static str,
    pub doc: &'static str,
    indexed: Indexed,
}

/// A Java class whose members programs may use.
struct Class {
    name: &'static str,
    /// Its members but for the functions that are named after it.
    others: &'static [&'static str],
}

const CLASSES: &[Class] = &[
    Class {
        name: "java.lang.Boolean",
        others: &[],
    },
    Class {
        name: "java.lang.Character",
        others: &[],
    },
    Class {
        name: "java.lang.Double",
        others: &[
            "Double/NEGATIVE_INFINITY",
            "Double/NaN",
            "Double/POSITIVE_INFINITY",
        ],
    },
    Class {
        name: "java.lang.Float",
        others: &[],
    },
    Class {
        name: "java.lang.Integer",
        others: &[],
    },
    Class {
        name: "java.lang.Long",
        others: &[],
    },
    Class {
        name: "java.lang.String",
        others: &[
            ".charAt",
            ".compareTo",
            ".concat",
            ".contains",
            ".endsWith",
            ".equals",
            ".equalsIgnoreCase",
            ".indexOf",
            ".isBlank",
            ".isEmpty",
            ".lastIndexOf",
            ".length",
            ".matches",
            ".repeat",
            ".replace",
            ".replaceAll",
            ".split",
            ".startsWith",
            ".strip",
            ".substring",
            ".toLowerCase",
            ".toString",
            ".toUpperCase",
            ".trim",
        ],
    },
    Class {
        name: "java.lang.System",
        others: &["System/currentTimeMillis"],
    },
    Class {
        name: "java.time.DayOfWeek",
        others: &[".getValue"],
    },
    Class {
        name: "java.time.Duration",
        others: &[
            ".getSeconds",
            ".toDays",
            ".toHours",
            ".toMillis",
            ".toMinutes",
            ".toSeconds",
        ],
    },
    Class {
        name: "java.time.Instant",
        others: &[
            ".compareTo",
            ".equals",
            ".getEpochSecond",
            ".isAfter",
            ".isBefore",
            ".isEqual",
            ".minusHours",
            ".minusMillis",
            ".minusMinutes",
            ".minusSeconds",
            ".plusHours",
            ".plusMillis",
            ".plusMinutes",
            ".plusSeconds",
            ".toEpochMilli",
            ".toString",
            ".until",
            "Instant/parse",
        ],
    },
    Class {
        name: "java.time.LocalDate",
        others: &[
            ".compareTo",
            ".equals",
            ".getDayOfMonth",
            ".getDayOfWeek",
            ".getDayOfYear",
            ".getMonth",
            ".getMonthValue",
            ".getYear",
            ".isAfter",
            ".isBefore",
            ".isEqual",
            ".isLeapYear",
            ".lengthOfMonth",
            ".lengthOfYear",
            ".minusDays",
            ".minusMonths",
            ".minusWeeks",
            ".minusYears",
            ".plusDays",
            ".plusMonths",
            ".plusWeeks",
            ".plusYears",
            ".toEpochDay",
            ".toString",
            ".until",
            ".withDayOfMonth",
            "LocalDate/parse",
        ],
    },
    Class {
        name: "java.time.temporal.ChronoUnit",
        others: &[".between"],
    },
    Class {
        name: "java.util.Date",
        others: &[".getTime", ".isAfter", ".isBefore", "java.util.Date."],
    },
];

impl Class {
    fn short_name(&self) -> &'static str {
        self.name
            .rsplit_once('.')
            .map_or(self.name, |(_, short)| short)
    }

    fn has(&self, name: &str) -> bool {
        let class = name.split_once('/').map(|(class, _)| class);
        self.others.contains(&name) || class == Some(self.short_name())
    }

    /// What it offers, sorted by name.
    fn members(&self) -> Vec<&'static str> {
        let names = builtins::all().map(|builtin| builtin.name);
        let named_after_it = names.filter(|name| self.has(name) && !self.others.contains(name));
        let mut members: Vec<_> = named_after_it.chain(self.others.iter().copied()).collect();
        members.sort_unstable();
        members
    }
}

impl Entry {
    fn new(
        reference: String,
        name: &'static str,
        namespace: &'static str,
        kind: &'static str,
        section: &'static str,
        signatures: &'static str,
        doc: &'static str,
    ) -> Entry {
        let indexed = Indexed::new([name, namespace, &reference], [doc]);
        Entry {
            reference,
            name,
            namespace,
            kind,
            section,
            signatures,
            doc,
            indexed,
        }
    }

    /// `NAME - DESCRIPTION`
    pub fn line(&self) -> String {
        format!("{} - {}", self.name, self.doc)
    }

    /// Its shapes, each by itself.
    pub fn shapes(&self) -> impl Iterator<Item = &'static str> {
        // Shapes are separated by commas outside brackets.
        let mut depth = 0i32;
        self.signatures
            .split(move |character| {
                match character {
                    '(' | '[' => depth += 1,
                    ')' | ']' => depth -= 1,
                    _ => {}
                }
                character == ',' && depth == 0
            })
            .map(str::trim)
    }
}

/// The full name of the namespace that is a function's home.
fn namespace(builtin: &Builtin) -> &'static str {
    // What Clojure has in its core is shown there, and so is what no other namespace offers.
    let home = if builtin.homes.contains(&Home::Core) {
        None
    } else {
        builtin.homes.first()
    };
    let row = home.and_then(|home| NAMESPACES.iter().find(|row| row.id == *home));
    row.map_or("clojure.core", |row| row.spellings[0])
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| heap::aside(entries));

fn entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for builtin in builtins::all().filter(|builtin| builtin.section != Section::Interop) {
        let (name, section) = (builtin.name, builtin.section.title());
        let namespace = if name == "tool/servers" {
            "mcp"
        } else {
            namespace(builtin)
        };
        entries.push(Entry::new(
            name.into(),
            name,
            namespace,
            "ptc-builtin",
            section,
            builtin.signatures,
            builtin.doc,
        ));
    }
    for form in SPECIAL_FORMS {
        let section = form.section.title();
        entries.push(Entry::new(
            form.name.into(),
            form.name,
            "clojure.core",
            "ptc-builtin",
            section,
            form.signature,
            form.doc,
        ));
    }
    for class in CLASSES {
        for name in class.members() {
            let Some(builtin) = builtins::lookup(name) else {
                continue;
            };
            // A method of two classes is listed once.
            if entries.iter().any(|entry| entry.name == name) {
                continue;
            }
            let reference = reference(class, name);
            entries.push(Entry::new(
                reference,
                name,
                class.name,
                "java-interop",
                "Java Interop",
                builtin.signatures,
                builtin.doc,
            ));
        }
    }
    // What is known without its class too is found by that name.
    let is_member = |name| CLASSES.iter().any(|class| class.has(name));
    let short_names = builtins::all().filter(|builtin| {
        builtin.section == Section::Interop && builtin.bare && !is_member(builtin.name)
    });
    for builtin in short_names {
        entries.push(Entry::new(
            builtin.name.into(),
            builtin.name,
            "clojure.core",
            "ptc-builtin",
            builtin.section.title(),
            builtin.signatures,
            builtin.doc,
        ));
    }
    entries.sort_by(|a, b| a.reference.cmp(&b.reference));
    entries
}

/// How a member is referred to, in a form that programs may write: a method by itself, anything else behind its
/// class, whose full name only `java.lang` leaves out.
fn reference(class: &Class, name: &str) -> String {
    match name.split_once('/') {
        Some(_) if class.name.starts_with("java.lang.") => name.to_owned(),
        Some((_, member)) => format!("{}/{member}", class.name),
        None if name.starts_with('.') => name.to_owned(),
        None => format!("{}/{name}", class.name),
    }
}

/// The entry that `reference` names, and the reference to show for it.
pub fn find(reference: &str) -> Option<(&'static Entry, String)> {
    if let Some(entry) = ENTRIES
        .iter()
        .find(|entry| entry.name == reference || entry.reference == reference)
    {
        return Some((entry, entry.reference.clone()));
    }
    let (namespace, member) = reference.split_once('/')?;
    let home = NAMESPACES
        .iter()
        .find(|row| row.spellings.contains(&namespace))?;
    let builtin = builtins::all()
        .find(|builtin| builtin.homes.contains(&home.id) && builtin.member() == member);
    let name = match builtin {
        Some(builtin) => builtin.name,
        // The listings give the special forms to that namespace.
        None if home.id == Home::Core => {
            SPECIAL_FORMS.iter().find(|form| form.name == member)?.name
        }
        None => return None,
    };
    let entry = ENTRIES.iter().find(|entry| entry.name == name)?;
    Some((entry, reference.to_owned()))
}

/// What a namespace or class offers, sorted by name; none when there is no such.
pub fn members(reference: &str) -> Option<Vec<&'static Entry>> {
    let class = CLASSES
        .iter()
        .find(|class| class.name == reference || class.short_name() == reference);
    if let Some(class) = class {
        let entries = class
            .members()
            .into_iter()
            .filter_map(|name| ENTRIES.iter().find(|entry| entry.name == name));
        return Some(entries.collect());
    }
    let row = match reference {
        // The one class that is a namespace: its short name is the namespace's.
        "java.lang.Math" => named("Math"),
        _ => named(reference),
    };
    row.map(offers)
}

/// What a namespace offers, sorted by name; none for classes and unknown names.
pub fn publics(reference: &str) -> Option<Vec<&'static Entry>> {
    named(reference).filter(|row| !is_class(row)).map(offers)
}

fn named(reference: &str) -> Option<&'static Namespace> {
    NAMESPACES
        .iter()
        .find(|row| row.spellings.contains(&reference))
}

fn is_class(row: &Namespace) -> bool {
    row.id == Home::Math
        || CLASSES
            .iter()
            .any(|class| class.name.ends_with(row.spellings[0]))
}

fn offers(row: &Namespace) -> Vec<&'static Entry> {
    let mut entries: Vec<_> = builtins::all()
        .filter(|builtin| builtin.homes.contains(&row.id))
        .filter_map(|builtin| ENTRIES.iter().find(|entry| entry.name == builtin.name))
        .collect();
    entries.sort_by_key(|entry| entry.name);
    entries
}

/// The entries that match `query`, best first.
pub fn search(query: &str) -> Vec<&'static Entry> {
    let query = tokens(query);
    let query = Query::new(&query);
    let mut found: Vec<(u32, &Entry)> = ENTRIES
        .iter()
        .map(|entry| (entry.indexed.score(&query), entry))
        .filter(|(score, _)| *score > 0)
        .collect();
    // The entries stand in order of their references, which decides between equals.
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().map(|(_, entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A class is listed whole: what only its members' names lead to is not found otherwise.
    #[test]
    fn every_member_is_listed_with_its_class() {
        let listed = |name| CLASSES.iter().any(|class| class.has(name));
        let members = builtins::all().filter(|builtin| builtin.section == Section::Interop);
        for builtin in members.filter(|builtin| !builtin.bare || builtin.name.starts_with('.')) {
            assert!(listed(builtin.name), "{} is in no class", builtin.name);
        }
        for name in CLASSES.iter().flat_map(|class| class.others) {
            assert!(builtins::lookup(name).is_some(), "there is no {name}");
        }
    }
}
