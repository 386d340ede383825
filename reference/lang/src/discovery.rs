//! The language's documentation of itself: every builtin, special form and Java member by reference. Derived from the
//! tables; knows no upstreams.

use std::sync::LazyLock;

use crate::analyze::SPECIAL_FORMS;
use crate::builtins::{self, Builtin, Home, NAMESPACES, Namespace, Section};
use crate::heap;
use crate::rank::{Indexed, Query, tokens};

/// Anything that a program can look up.
pub struct Entry {
    /// The canonical reference, as listings show it.
    pub reference: String,
    pub name: &'static str,
    /// The full name of its namespace or class.
    pub namespace: &'static str,
    /// `ptc-builtin` or `java-interop`
    pub kind: &'static str,
    /// The section of listings that shows it.
    pub section: &'static str,
    /// The call shapes.
    pub signatures: &'static str,
    pub doc: &'static str,
    indexed: Indexed,
}

/// A Java class whose members programs may use.
struct Class {
    name: &'static str,
    /// Its members, except for functions whose names begin with the name of the class.
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

    fn has_member(&self, name: &str) -> bool {
        let class = name.split_once('/').map(|(class, _)| class);
        self.others.contains(&name) || class == Some(self.short_name())
    }

    /// Its members, sorted by name.
    fn members(&self) -> Vec<&'static str> {
        let names = builtins::all().map(|builtin| builtin.name);
        let named_after_it =
            names.filter(|name| self.has_member(name) && !self.others.contains(name));
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

    /// The individual call shapes.
    pub fn shapes(&self) -> impl Iterator<Item = &'static str> {
        // Shapes are separated by commas outside of brackets.
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

/// The full name of a function's home namespace.
fn namespace(builtin: &Builtin) -> &'static str {
    // Functions of Clojure's core are listed there, as are functions that no other namespace offers.
    let home = if builtin.homes.contains(&Home::Core) {
        None
    } else {
        builtin.homes.first()
    };
    let row = home.and_then(|home| NAMESPACES.iter().find(|row| row.id == *home));
    row.map_or("clojure.core", |row| row.spellings[0])
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| heap::uncharged(entries));

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
            // A method of several classes is listed once.
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
    // Functions that are also known without their class are found by that name.
    let is_member = |name| CLASSES.iter().any(|class| class.has_member(name));
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

/// The reference of a member, in a form that programs may write: a method by itself, anything else with its class, by
/// its full name unless that is in `java.lang`.
fn reference(class: &Class, name: &str) -> String {
    match name.split_once('/') {
        Some(_) if class.name.starts_with("java.lang.") => name.to_owned(),
        Some((_, member)) => format!("{}/{member}", class.name),
        None if name.starts_with('.') => name.to_owned(),
        None => format!("{}/{name}", class.name),
    }
}

/// The entry that `reference` names, and the reference to display for it.
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
        // Listings assign the special forms to this namespace.
        None if home.id == Home::Core => {
            SPECIAL_FORMS.iter().find(|form| form.name == member)?.name
        }
        None => return None,
    };
    let entry = ENTRIES.iter().find(|entry| entry.name == name)?;
    Some((entry, reference.to_owned()))
}

/// The members of a namespace or class, sorted by name; `None` when it does not exist.
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
        // The one class that is a namespace: its short name is that of the namespace.
        "java.lang.Math" => find_namespace("Math"),
        _ => find_namespace(reference),
    };
    row.map(offers)
}

/// The members of a namespace, sorted by name; `None` for classes and unknown names.
pub fn publics(reference: &str) -> Option<Vec<&'static Entry>> {
    find_namespace(reference)
        .filter(|row| !is_class(row))
        .map(offers)
}

fn find_namespace(reference: &str) -> Option<&'static Namespace> {
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
    // The entries are sorted by reference, which decides between equal scores.
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().map(|(_, entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A class is listed completely: a member that is missing from the listing could not be found.
    #[test]
    fn classes_list_all_their_members() {
        let listed = |name| CLASSES.iter().any(|class| class.has_member(name));
        let members = builtins::all().filter(|builtin| builtin.section == Section::Interop);
        for builtin in members.filter(|builtin| !builtin.bare || builtin.name.starts_with('.')) {
            assert!(listed(builtin.name), "{} is in no class", builtin.name);
        }
        for name in CLASSES.iter().flat_map(|class| class.others) {
            assert!(builtins::lookup(name).is_some(), "there is no {name}");
        }
    }
}
