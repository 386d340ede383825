//! `list` and `show`: inspects the suite without a target.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::runner::by_hand::{self, ShownServer};
use crate::runner::case_source;
use crate::suite::{Case, Suite};
use crate::target::capability::{CAPABILITIES, DetectionRule};
use crate::target::launch::Launch;

use super::{Failure, ListArgs, ListFormat, ShowArgs, SuiteOption, command_words, write_stdout};

/// Lists the selected cases.
pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let suite = args.suite.suite.load()?;
    let indices = args.suite.selection()?.indices(&suite)?;
    let cases = indices.iter().map(|index| &suite.cases[*index]);
    let mut text = String::new();
    match args.format {
        ListFormat::Ids => cases.for_each(|case| text.push_str(&format!("{}\n", case.id))),
        ListFormat::Lines => cases.for_each(|case| {
            text.push_str(&format!(
                "{}\t{}\t{}\t{}:{}\n",
                case.id,
                case.body.kind().word(),
                suite.level(case).word(),
                case.file,
                case.line
            ));
        }),
        ListFormat::Sections => {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            cases.for_each(|case| *counts.entry(&case.section).or_default() += 1);
            for (section, count) in counts {
                text.push_str(&format!("{section}\t{count}\n"));
            }
        }
    }
    Ok(write_stdout(&mut std::io::stdout(), &text)?)
}

/// Lists the capabilities, with the number of cases that need each.
pub fn capabilities(suite: &SuiteOption) -> Result<(), Failure> {
    let suite = suite.load()?;
    let mut needed: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &suite.cases {
        let needs: BTreeSet<&str> = case.needs().collect();
        needs
            .into_iter()
            .for_each(|need| *needed.entry(need).or_default() += 1);
    }
    let mut text = String::from("capability\tcases\tclaimed\tmeaning\n");
    for row in CAPABILITIES {
        let cases = needed.remove(row.name).unwrap_or_default();
        let known = row.known.words();
        text.push_str(&format!(
            "{}\t{cases}\t{known}\tthe target {}\n",
            row.name, row.meaning
        ));
    }
    for (name, cases) in needed {
        let known = DetectionRule::Declared.words();
        text.push_str(&format!(
            "{name}\t{cases}\t{known}\ta word that only this suite defines\n"
        ));
    }
    Ok(write_stdout(&mut std::io::stdout(), &text)?)
}

/// Shows a case, or the contents of a clause or section.
pub fn show(args: &ShowArgs) -> Result<(), Failure> {
    let suite = args.suite.load()?;
    let text = match suite.case(&args.id) {
        Some(case) => case_page(&suite, case, &shown_server(args)?, &rerun_command(args)),
        None => anchor_page(&suite, &args.id).ok_or_else(|| unknown(&suite, &args.id))?,
    };
    Ok(write_stdout(&mut std::io::stdout(), &text)?)
}

/// The command that runs only this case, against the target that the case is shown for.
fn rerun_command(args: &ShowArgs) -> String {
    let path = |path: &Option<PathBuf>| {
        path.as_ref()
            .map(|path| path.to_string_lossy().into_owned())
    };
    let mut words = vec!["ptc-conformance".to_owned(), "run".to_owned()];
    for (name, value) in [
        ("stdio", args.stdio.clone()),
        ("url", args.url.clone()),
        ("testee", args.testee.clone()),
        ("launch", path(&args.launch)),
        ("suite", path(&args.suite.path)),
    ] {
        if let Some(value) = value {
            words.extend([format!("--{name}"), value]);
        }
    }
    words.extend(["--filter".to_owned(), args.id.clone()]);
    shell_words::join(words)
}

/// The server that the case is shown for: the reference, unless another is named.
fn shown_server(args: &ShowArgs) -> Result<ShownServer, String> {
    let mut subject = ShownServer::default();
    if let Some(path) = &args.launch {
        subject.launch = Launch::read(path).map_err(|error| format!("--launch {error}"))?;
        if !subject.launch.command.is_empty() {
            subject.command = Some(subject.launch.command.clone());
        }
        if !subject.launch.testee.is_empty() {
            subject.testee.clone_from(&subject.launch.testee);
        }
    }
    if let Some(command) = &args.stdio {
        subject.command = Some(command_words("--stdio", command)?);
    }
    if let Some(command) = &args.testee {
        subject.testee = command_words("--testee", command)?;
        subject.is_library = args.stdio.is_none() && args.url.is_none();
    }
    if let Some(url) = &args.url {
        subject.command = None;
        subject.url.clone_from(url);
    }
    Ok(subject)
}

fn case_page(suite: &Suite, case: &Case, subject: &ShownServer, through: &str) -> String {
    let mut text = format!("{} ({}:{})\n\n", case.id, case.file, case.line);
    if let Some(section) = suite.section(&case.section) {
        text.push_str(&format!("# {}\n\n", section.title));
        if !section.prose.trim().is_empty() {
            text.push_str(&format!("{}\n\n", section.prose.trim()));
        }
    }
    for id in &case.clauses {
        if let Some(clause) = suite.clause(id) {
            text.push_str(&format!(
                "{id} ({}): {}\n",
                clause.level.word(),
                clause.sentence
            ));
        }
    }
    if !case.target.is_default()
        // Not as TOML, whose writer can't handle JSON values that are stored as text.
        && let Ok(target) = serde_json::to_string_pretty(&case.target)
    {
        text.push_str(&format!("\nTarget:\n\n{}\n", indented(&target)));
    }
    text.push_str(&format!(
        "\nCase:\n\n{}\n",
        indented(&case_source::render(case))
    ));
    if let Some(why) = &case.why {
        text.push_str(&format!("\nWhy: {why}\n"));
    }
    if !case.rulings.is_empty() {
        let numbers: Vec<String> = case.rulings.iter().map(u32::to_string).collect();
        text.push_str(&format!("\nRulings: {}\n", numbers.join(", ")));
    }
    if let Some(divergence) = &case.divergence {
        text.push_str(&format!("\nDivergence: {divergence}\n"));
    }
    if let Some(commands) = by_hand::commands(case, subject) {
        text.push_str(&format!("\nBy hand:\n\n{}\n", indented(&commands)));
    }
    text.push_str(&format!("\nThrough the harness:\n\n    {through}\n"));
    text
}

fn anchor_page(suite: &Suite, id: &str) -> Option<String> {
    let mut text = String::new();
    if let Some(clause) = suite.clause(id) {
        text.push_str(&format!(
            "{id} ({}, {}:{}): {}\n",
            clause.level.word(),
            clause.file,
            clause.line,
            clause.sentence
        ));
    } else {
        let section = suite.section(id)?;
        text.push_str(&format!(
            "{id} ({}:{}): {}\n\n{}\n",
            section.file,
            section.line,
            section.title,
            section.prose.trim()
        ));
        for clause in suite.clauses.iter().filter(|clause| clause.section == id) {
            text.push_str(&format!("\n{}: {}\n", clause.id, clause.sentence));
        }
    }
    text.push_str("\nCases:\n");
    for case in &suite.cases {
        if case.section == id || case.clauses.iter().any(|clause| clause == id) {
            text.push_str(&format!("  {}\n", case.id));
        }
    }
    Some(text)
}

fn unknown(suite: &Suite, id: &str) -> String {
    let near: Vec<&str> = suite
        .cases
        .iter()
        .map(|case| case.id.as_str())
        .filter(|known| known.contains(id))
        .take(10)
        .collect();
    match near.as_slice() {
        [] => format!(
            "no case, clause or section is called `{id}`; `ptc-conformance list` names them"
        ),
        near => format!("no case is called `{id}`; near it: {}", near.join(", ")),
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
