//! What may be meant by a name that is not known.

use super::super::quote::is_unredacted;
use super::super::{Place, Redact};
use super::{callback_arguments, is_name_char};
use crate::absent::advice as absent;
use crate::analyze::special_forms;
use crate::builtins::{self, METHODS, NAMESPACES};

/// Advice about an unbound name, unless the message already suggests a similar one.
pub(super) fn unbound_advice(
    name: &str,
    near: bool,
    place: &Place,
    redact: &Redact<'_>,
) -> Option<String> {
    let undefined = |name: &str| {
        format!(
            "`{name}` is defined nowhere: define it first, as in (def {name} …), (defn {name} [x] …) or (let [{name} …] …)"
        )
    };
    if !is_unredacted(name, redact) {
        return Some(undefined(&redact(name)));
    }
    if place.in_context.iter().any(|known| known == name) {
        return Some(format!("the context has `{name}`: write data/{name}"));
    }
    if place.bound_elsewhere.iter().any(|bound| bound == name) {
        return Some(format!(
            "`{name}` is bound in another form of the program and ends with it: use it inside of that form, or bind it here"
        ));
    }
    let known = || namespace_advice(name).or_else(|| absent(name));
    let known = known().or_else(|| special_form_advice(name));
    let known = known.or_else(|| decimal_point_advice(name));
    let known = known.or_else(|| class_advice(name));
    let known = known.or_else(|| dotted_name_advice(name));
    if near {
        return known;
    }
    known.or_else(|| {
        let meant = match name.ends_with('\'') {
            true => Some("; text stands in double quotes, as in \"some text\"".to_owned()),
            false => typo_advice(name),
        };
        Some(undefined(name) + &meant.unwrap_or_default())
    })
}

/// Whether what follows `before` is given to a builtin that calls it.
pub(super) fn is_function_argument(before: &str) -> bool {
    let call = before.trim_end();
    let caller = &call[call.trim_end_matches(is_name_char).len()..];
    call.ends_with(caller)
        && call[..call.len() - caller.len()].ends_with('(')
        && callback_arguments(caller).is_some()
}

/// Advice about a name that is one typo away from a popular name that the language does not have.
fn typo_advice(name: &str) -> Option<String> {
    const LETTERS: std::ops::RangeInclusive<usize> = 5..=40;
    if !LETTERS.contains(&name.len()) {
        return None;
    }
    let near = crate::absent::names().find(|near| strsim::osa_distance(name, near) == 1)?;
    let instead = crate::absent::replacement(near)?;
    Some(format!(
        "; if `{near}` is meant, that is not in this language: {instead}"
    ))
}

/// Advice about a special form in the place of a value.
fn special_form_advice(name: &str) -> Option<String> {
    let form = special_forms().iter().find(|form| form.name == name)?;
    let shape = form.signature.split(", (").next()?;
    Some(format!(
        "`{name}` is no value: it stands first, as in {shape}"
    ))
}

/// Advice about a number without a digit before its point.
pub(super) fn decimal_point_advice(name: &str) -> Option<String> {
    let (sign, digits) = name.split_once('.')?;
    let is_number =
        ["", "+", "-"].contains(&sign) && digits.starts_with(|c: char| c.is_ascii_digit());
    is_number.then(|| format!("a number has a digit in front of its point: write {sign}0.{digits}"))
}

/// Advice about a method that no class has: probably a map key is meant.
pub(super) fn method_advice(name: &str) -> Option<String> {
    let key = name.strip_prefix('.')?.trim_start_matches('-');
    crate::reader::is_readable_keyword(key)
        .then(|| format!("a key of a map is read as (:{key} m), and as (map :{key} rows) of each"))
}

/// Advice about a Java class: a constructor call such as `Name.`, or a class name with its package.
fn class_advice(name: &str) -> Option<String> {
    let (path, made) = match name.strip_suffix('.') {
        Some(path) => (path, true),
        None => (name, false),
    };
    let (package, class) = path.rsplit_once('.').unwrap_or(("", path));
    let is_class = class.starts_with(|first: char| first.is_ascii_uppercase())
        && class.chars().all(|c| c.is_ascii_alphanumeric() || c == '$');
    if !is_class || (!made && !is_jvm_package(package)) {
        return None;
    }
    let raised = ["Exception", "Error", "Throwable"];
    let instead = match made {
        true if raised.iter().any(|end| class.ends_with(end)) => {
            crate::absent::replacement("throw")?
        }
        true => crate::absent::replacement(&format!("{class}.")).unwrap_or(
            "no objects are made: keep data in maps, vectors and sets, and text in strings",
        ),
        false => crate::absent::replacement("class")?,
    };
    Some(format!("`{name}` is not in this language: {instead}"))
}

/// Whether a namespace or a package is one of Clojure's or Java's.
fn is_jvm_package(package: &str) -> bool {
    let first = package.split('.').next().unwrap_or_default();
    ["clojure", "java", "javax"].contains(&first)
}

/// Advice about a name with a dot, as other languages write member access.
fn dotted_name_advice(name: &str) -> Option<String> {
    const STEPS_MAX: usize = 8;
    let (holder, member) = name.rsplit_once('.')?;
    let mut steps = name.split('.');
    if steps.clone().any(str::is_empty) || steps.clone().count() > STEPS_MAX {
        return None;
    }
    let qualified = format!("{holder}/{member}");
    let bare = builtins::bare_names().any(|known| known == member);
    let written = match holder {
        _ if builtins::lookup(&qualified).is_some() => qualified,
        _ if bare && holder != "data" => format!("({member} …)"),
        _ => {
            let start = match steps.next()? {
                "data" => format!("data/{}", steps.next()?),
                start => start.to_owned(),
            };
            steps.fold(start, |inner, step| format!("(:{step} {inner})"))
        }
    };
    Some(format!(
        "`{name}` is no name here, members are read by functions: write {written}"
    ))
}

/// The spelling of a name that is known only with a namespace.
fn namespace_advice(name: &str) -> Option<String> {
    let spelled = qualified_spellings(name, |row| !row.bare);
    let written = spelled.join(" or ");
    (!written.is_empty()).then(|| format!("`{name}` stands in a namespace: write {written}"))
}

/// Advice about a name that its namespace does not have.
pub(super) fn member_advice(name: &str) -> Option<String> {
    if name.starts_with('.') {
        let near = crate::analyze::nearest(name, METHODS.iter().copied())?;
        return Some(format!("perhaps `{near}` is meant"));
    }
    let (namespace, member) = name.split_once('/')?;
    let known = NAMESPACES.iter();
    let known = known
        .clone()
        .find(|known| known.spellings.contains(&namespace));
    let members = known.as_ref().map(|known| builtins::members(known.id));
    let near = crate::analyze::nearest(member, members.into_iter().flatten());
    // Advice about exactly this name is better than a similar name.
    let near = near.filter(|_| absent(member).is_none());
    if let Some(near) = near {
        return Some(format!("perhaps `{namespace}/{near}` is meant"));
    }
    // A member of a date or time class is no substitute for a member of another class.
    let class = namespace.rsplit('.').next().unwrap_or(namespace);
    let is_class = class.starts_with(|first: char| first.is_ascii_uppercase());
    let counts = |row: &builtins::Builtin| !is_class || !row.homes.iter().all(is_temporal_class);
    let written = qualified_spellings(member, counts).join(" or ");
    if written.is_empty() {
        return absent(member).or_else(|| match (known, is_class) {
            (Some(_), _) => None,
            (None, false) if is_jvm_package(namespace) => Some(format!(
                "there is no namespace {namespace} here, and nothing is loaded: write it with the functions of those above"
            )),
            (None, true) if ["DayOfWeek", "Month"].contains(&class) => Some(
                "days of the week and months are strings, as in (= \"MONDAY\" (.getDayOfWeek d)), and numbers by .getMonthValue and .getValue"
                    .to_owned(),
            ),
            (None, true) => Some(format!(
                "there is no class {class} here, and none but those with the namespaces above: write it with functions, such as those of clojure.core and clojure.string"
            )),
            (None, false) => Some(format!(
                "a tool of an upstream is called as (tool/call {{:server \"{namespace}\" :tool \"{member}\" :args {{…}}}})"
            )),
        });
    }
    Some(format!("`{member}` stands elsewhere: write {written}"))
}

/// Whether a namespace is a class of dates and times.
fn is_temporal_class(home: &builtins::Home) -> bool {
    use builtins::Home;
    matches!(
        home,
        Home::LocalDate | Home::Instant | Home::Duration | Home::ChronoUnit
    )
}

/// The spellings of a member in each of its namespaces, for the builtins that `counts` accepts.
fn qualified_spellings(member: &str, counts: impl Fn(&builtins::Builtin) -> bool) -> Vec<String> {
    let rows = builtins::all().filter(|row| row.member() == member && counts(row));
    let spelled = rows.flat_map(|row| row.homes).filter_map(|home| {
        let namespace = NAMESPACES.iter().find(|namespace| namespace.id == *home)?;
        Some(match namespace.id {
            builtins::Home::Core => member.to_owned(),
            _ => format!("{}/{member}", namespace.spellings[0]),
        })
    });
    let mut spelled: Vec<_> = spelled.collect();
    spelled.sort_unstable();
    spelled.dedup();
    spelled
}

/// The entries of the context, the one that `name` may stand for first.
pub(super) fn context_advice(name: &str, known: &[String], redact: &Redact<'_>) -> String {
    if known.is_empty() {
        return "the `context` object has no entries that can be named: `context` is given beside the program, for each call again; (def name data/name) keeps a value in a session"
            .to_owned();
    }
    if name == "get" {
        return "an entry is read as data/NAME, or as (get data \"NAME\") whatever its name is"
            .to_owned();
    }
    if is_unredacted(name, redact)
        && let Some((holder, member)) = name.split_once('.')
        && known.iter().any(|known| known == holder)
        && !member.contains('.')
    {
        return format!(
            "the `context` object has data/{holder}; members are read by functions: write (:{member} data/{holder})"
        );
    }
    let plain = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-?!".contains(c))
    };
    let read = |name: &String| match plain(name) {
        true => format!("data/{}", redact(name)),
        false => format!(
            "(get data {})",
            crate::print::readable(&crate::Value::from(redact(name)))
        ),
    };
    let near = match is_unredacted(name, redact) && is_unredacted(&format!("data/{name}"), redact) {
        true => crate::analyze::nearest(name, known.iter().map(String::as_str)),
        false => None,
    };
    let near = near.map_or(String::new(), |near| {
        format!("; perhaps {} is meant", read(&near))
    });
    let shown = known.iter().map(read).collect::<Vec<_>>().join(", ");
    format!("the `context` object has {shown}{near}")
}
