//! The record of a run: every report is rendered from it, and `diff`, `merge` and baselines read it.
//! Knows nothing of targets or fixtures; a report can be read where neither is available.

pub mod badge;
pub mod compare;
pub mod conclusion;
pub mod groups;
pub mod html;
pub mod junit;
pub mod levels;
pub mod markdown;
pub mod matrix;
pub mod sanitize;
pub mod tap;
pub mod terminal;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::files::{self, FileError};
use crate::traffic::{TRIED_AGAIN, Traffic};
use conclusion::{Conclusion, judged_share, percent};
pub use sanitize::Visible;

/// Version of the record's shape. A reader rejects any other.
pub const FORMAT: u32 = 1;

/// One run of the suite, or of a part of it, against one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of this shape: 1.
    pub format: u32,
    /// The harness, with its version.
    pub harness: String,
    /// How the target was reached: a command, a URL.
    pub target: String,
    /// The target's own name and version, if it reported them.
    pub server: Option<String>,
    /// The number of cases in the suite, selected or not.
    pub suite_cases: usize,
    /// Tells the suite from any other with as many cases. Absent in records of earlier versions, and where no JSON report was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_digest: Option<String>,
    /// Whether filters, shards or `--fail-fast` left cases out.
    pub partial: bool,
    /// Whether a signal ended the run before its last case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Whether failures of SHOULD clauses fail the run.
    pub strict: bool,
    /// Wall-clock time of the run, in milliseconds.
    pub duration_ms: u64,
    /// One entry per case, in the suite's order.
    pub cases: Vec<CaseRecord>,
    /// Other reasons for which the run fails, such as a baseline entry that matches nothing.
    pub complaints: Vec<String>,
}

/// The result of one case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaseRecord {
    /// The case's id, unique and stable.
    pub id: String,
    /// The page that it belongs to, such as `lang.reader`, even for a case in a corpus file.
    #[serde(default)]
    pub page: String,
    /// The section that it belongs to.
    pub section: String,
    /// The clause that it tests, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clause: Option<String>,
    /// The clause's sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// File and line of the case.
    pub place: String,
    /// Id of the recorded divergence that it demonstrates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<String>,
    /// What expected the failure. Absent in records of earlier versions, where it may have been either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_by: Option<ExpectedBy>,
    /// Numbers of the rulings that the expectation is based on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rulings: Vec<u32>,
    /// The rationale for the expectation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How the target was reached; absent for a library behind an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The result.
    pub status: Status,
    /// One word for the cause: `mismatch`, `crash`, `no-reply`, `junk`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// One line that explains the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What was expected and what was observed, item by item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Parts of the expectation that the target can't show, with the reason. A case that passed met all the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unobserved: Vec<String>,
    /// The source of the case in the suite, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The bytes exchanged in both directions. Kept for cases that did not pass, and for all with `--keep-traffic`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<Traffic>,
    /// The end of the target's standard error. Kept for cases that did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Duration of the case in microseconds.
    pub duration_us: u64,
    /// Commands that reproduce the case by hand: the target with all its flags, and what is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<String>,
    /// The command that reruns only this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<String>,
}

/// How a server was reached. A run may play each case over both; a result is identified by its case's id and its transport.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Standard input and output.
    Stdio,
    Http,
}

impl Transport {
    /// The name that reports print.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "HTTP",
        }
    }
}

/// The result of a case.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The target did what the case asks for.
    Pass,
    /// The harness tested itself; the result says nothing about the target.
    SelfCheck,
    Fail,
    /// The case failed, as the baseline or a recorded divergence expects, with a reason.
    ExpectedFailure,
    /// The case failed, but its clause is a SHOULD.
    Warning,
    /// The case gave different results when it was repeated.
    Flaky,
    /// The target cannot show what the case asks for.
    Unobservable,
    /// The target does not claim what the case needs.
    NotClaimed,
    /// The run ended before the case's turn.
    #[default]
    NotRun,
}

impl Status {
    /// Every status, in the order of summaries.
    pub const ALL: [Self; 9] = [
        Self::Pass,
        Self::Fail,
        Self::Flaky,
        Self::Warning,
        Self::ExpectedFailure,
        Self::Unobservable,
        Self::NotClaimed,
        Self::NotRun,
        Self::SelfCheck,
    ];

    /// Whether it makes the run fail.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Fail | Self::Flaky => true,
            Self::Pass
            | Self::SelfCheck
            | Self::ExpectedFailure
            | Self::Warning
            | Self::Unobservable
            | Self::NotClaimed
            | Self::NotRun => false,
        }
    }

    /// The words that summaries print.
    pub fn words(self) -> &'static str {
        match self {
            Self::Pass => "passed",
            Self::SelfCheck => "checks of the harness itself",
            Self::Fail => "failed",
            Self::ExpectedFailure => "failed as expected",
            Self::Warning => "warned",
            Self::Flaky => "flaky",
            Self::Unobservable => "unobservable",
            Self::NotClaimed => "not claimed",
            Self::NotRun => "not run",
        }
    }
}

/// What expected a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedBy {
    Baseline,
    /// A recorded divergence.
    Divergence,
}

impl ExpectedBy {
    /// The words that summaries print for failures.
    fn words(self) -> &'static str {
        match self {
            Self::Baseline => "failed as the baseline expects",
            Self::Divergence => "failed as recorded divergences explain",
        }
    }
}

/// One expectation that was not met, and what was observed instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The location, such as a JSON path or `result`.
    pub at: String,
    /// What the case asks for.
    pub expected: String,
    /// What the target did.
    pub observed: String,
    /// A line diff, `-` expected and `+` observed; empty when both are one short line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

impl CaseRecord {
    /// The clause that it tests, or its section if it belongs to no clause.
    pub fn anchor(&self) -> &str {
        self.clause.as_deref().unwrap_or(&self.section)
    }

    /// The background of its expectation: divergence, rulings and rationale, one line each.
    pub fn background(&self) -> Vec<String> {
        let divergence = self.divergence.as_ref();
        let divergence = divergence.map(|id| format!("recorded divergence: {id}"));
        let numbers: Vec<String> = self.rulings.iter().map(u32::to_string).collect();
        let rulings = (!numbers.is_empty()).then(|| format!("ruling: {}", numbers.join(", ")));
        let why = self.why.as_ref().map(|why| format!("why: {why}"));
        [divergence, rulings, why].into_iter().flatten().collect()
    }
}

impl Run {
    /// The number of cases with this status.
    pub fn count(&self, status: Status) -> usize {
        self.cases
            .iter()
            .filter(|case| case.status == status)
            .count()
    }

    /// What the run proves.
    pub fn conclusion(&self) -> Conclusion {
        Conclusion::of(self)
    }

    /// What the run proves and, unless that is the whole suite, for how much of it.
    pub fn headline(&self) -> String {
        let conclusion = self.conclusion();
        let words = conclusion.words();
        match percent(judged_share(self)) {
            share @ ..100 if conclusion.is_good() => {
                format!("{words}; {share} % of the cases judged")
            }
            _ => words,
        }
    }

    /// Whether there are failures that nothing excuses.
    pub fn has_failures(&self) -> bool {
        !self.complaints.is_empty() || self.cases.iter().any(|case| case.status.is_failure())
    }

    /// The distinct transports that cases were run over; one entry, if any case was run at all.
    pub fn transports(&self) -> Vec<Option<Transport>> {
        let all: BTreeSet<_> = self.cases.iter().map(|case| case.transport).collect();
        all.into_iter().collect()
    }

    /// The label of a case in a report: its id, with its transport if there are several.
    pub fn label(&self, case: &CaseRecord) -> String {
        labelled(&case.id, case.transport.filter(|_| self.has_transports()))
    }

    /// Whether cases were run over more than one transport.
    fn has_transports(&self) -> bool {
        let first = self.cases.first().map(|case| case.transport);
        self.cases.iter().any(|case| Some(case.transport) != first)
    }

    /// The counts that are not zero: one sentence per transport; the last one includes the complaints.
    pub fn summary(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self
            .transports()
            .into_iter()
            .map(|transport| self.sentence(transport))
            .collect();
        let share = judged_share(self);
        if share.0 < share.1 {
            sentences.push(format!(
                "{} of {} cases were judged ({} %)",
                share.0,
                share.1,
                percent(share)
            ));
        }
        if !self.complaints.is_empty() {
            let complaints = match self.complaints.len() {
                1 => "1 complaint".to_owned(),
                many => format!("{many} complaints"),
            };
            match sentences.last_mut() {
                Some(last) => last.push_str(&format!("; {complaints}")),
                None => sentences.push(complaints),
            }
        }
        sentences
    }

    fn sentence(&self, transport: Option<Transport>) -> String {
        let cases: Vec<&CaseRecord> = self
            .cases
            .iter()
            .filter(|case| case.transport == transport)
            .collect();
        let of = |status| cases.iter().filter(|case| case.status == status).count();
        // Cases that passed although the target can't show everything that they expect.
        let again = |text: &String| text.starts_with(TRIED_AGAIN);
        let passed_with = |which: &dyn Fn(&String) -> bool| {
            let passed = cases.iter().filter(|case| case.status == Status::Pass);
            passed
                .filter(|case| case.unobserved.iter().any(which))
                .count()
        };
        let in_part = passed_with(&|text| !again(text));
        let again = passed_with(&again);
        let counts: Vec<String> = Status::ALL
            .into_iter()
            .map(|status| (status, of(status)))
            .filter(|(status, count)| *count > 0 || *status == Status::Pass)
            .map(|(status, count)| {
                if status == Status::ExpectedFailure {
                    return expected_failures(&cases);
                }
                let mut words = format!("{count} {}", status.words());
                if status == Status::Pass {
                    let remarks = [
                        (in_part, "in part: the rest cannot be seen"),
                        (again, "when tried again alone, not at first"),
                    ];
                    let remarks = remarks.iter().filter(|(count, _)| *count > 0);
                    let remarks: Vec<String> = remarks
                        .map(|(count, why)| format!("{count} of them {why}"))
                        .collect();
                    if !remarks.is_empty() {
                        words.push_str(&format!(" ({})", remarks.join("; ")));
                    }
                }
                words
            })
            .collect();
        let over = transport.map(|transport| format!(" over {}", transport.words()));
        format!(
            "{} cases{}: {}",
            cases.len(),
            over.unwrap_or_default(),
            counts.join(", ")
        )
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When the file is not a record of this format.
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        /// The part that all formats have in common. The rest depends on the format.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let text = files::read_text(path, files::REPORT_BYTES_MAX)?;
        let no_report = |source| ReportError::NoReport {
            path: path.to_owned(),
            source,
        };
        let Head { format } = serde_json::from_str(&text).map_err(no_report)?;
        if format != FORMAT {
            return Err(ReportError::OtherFormat {
                path: path.to_owned(),
                format,
            });
        }
        let run: Self = serde_json::from_str(&text).map_err(no_report)?;
        let mut seen = BTreeSet::new();
        let mut cases = run.cases.iter();
        match cases.find(|case| !seen.insert((case.transport, &case.id))) {
            Some(twice) => Err(ReportError::Twice {
                path: path.to_owned(),
                label: labelled(&twice.id, twice.transport),
            }),
            None => Ok(run),
        }
    }

    /// The record as JSON text.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a record holds only strings, numbers and lists");
        text.push('\n');
        text
    }

    /// The JSON Schema of a record.
    pub fn schema() -> String {
        let mut text =
            serde_json::to_string_pretty(&schemars::schema_for!(Self)).expect("a schema is JSON");
        text.push('\n');
        text
    }
}

/// The counts of failures by what expected them.
fn expected_failures(cases: &[&CaseRecord]) -> String {
    let mut counts: IndexMap<&str, usize> = IndexMap::new();
    let expected = |case: &&&CaseRecord| case.status == Status::ExpectedFailure;
    for case in cases.iter().filter(expected) {
        let words = match case.expected_by {
            Some(by) => by.words(),
            None => Status::ExpectedFailure.words(),
        };
        *counts.entry(words).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(words, count)| format!("{count} {words}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// A case's id, with its transport if one is given.
fn labelled(id: &str, transport: Option<Transport>) -> String {
    match transport {
        Some(transport) => format!("{id} over {}", transport.words()),
        None => id.to_owned(),
    }
}

/// Why a report can't be read, rendered or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Unreadable(#[from] FileError),
    #[error("{}: not a report of a run: {source}", .path.display())]
    NoReport {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "{}: a report of format {format}, but this harness reads format {FORMAT}: run it again with `--report json=…`",
        .path.display()
    )]
    OtherFormat { path: PathBuf, format: u32 },
    /// With two verdicts on one case, a comparison would have to choose.
    #[error("{}: expected each case once, found {label} twice", .path.display())]
    Twice { path: PathBuf, label: String },
    #[error("HTML: {0}")]
    Html(#[from] askama::Error),
    /// The data of a page's script.
    #[error("HTML: {0}")]
    HtmlData(#[from] serde_json::Error),
    #[error("JUnit: {0}")]
    Junit(#[from] quick_junit::SerializeError),
    #[error("standard output: {0}")]
    Stdout(io::Error),
    #[error("{}: {source}", .path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{}: expected a file to write to, found a directory", .path.display())]
    Directory { path: PathBuf },
}

/// A text that does not ask for a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}`: expected FORMAT=FILE, FORMAT one of {known}", known = format_names())]
pub struct RequestError(String);

fn format_names() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// The report formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Junit,
    /// Test Anything Protocol, version 14.
    Tap,
    /// A summary for CI pages.
    Markdown,
    /// A self-contained page.
    Html,
    /// A badge in the format of shields.io.
    Badge,
    /// One badge for each level, by name.
    Badges,
}

/// Every format, with its name.
const FORMATS: &[(&str, Format)] = &[
    ("json", Format::Json),
    ("junit", Format::Junit),
    ("tap", Format::Tap),
    ("markdown", Format::Markdown),
    ("html", Format::Html),
    ("badge", Format::Badge),
    ("badges", Format::Badges),
];

/// A requested report: `FORMAT=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRequest {
    pub format: Format,
    /// The file to write; `-` is standard output.
    pub path: PathBuf,
}

impl FromStr for ReportRequest {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let refused = || RequestError(text.to_owned());
        let (name, path) = text.split_once('=').ok_or_else(refused)?;
        let found = FORMATS.iter().find(|(known, _)| *known == name);
        let (_, format) = found.ok_or_else(refused)?;
        if path.is_empty() {
            return Err(refused());
        }
        Ok(Self {
            format: *format,
            path: PathBuf::from(path),
        })
    }
}

impl Format {
    /// Renders the report as text.
    ///
    /// # Errors
    /// When a document writer refuses the text, which does not happen for valid text.
    pub fn render(self, run: &Run) -> Result<String, ReportError> {
        // JSON is for programs, which get every text unchanged.
        let run = match self {
            Self::Json => Cow::Borrowed(run),
            _ => Cow::Owned(run.sanitized()),
        };
        let run = run.as_ref();
        match self {
            Self::Json => Ok(run.json()),
            Self::Junit => junit::render(run),
            Self::Tap => Ok(tap::render(run)),
            Self::Markdown => Ok(markdown::render(run)),
            Self::Html => html::render(run, None),
            Self::Badge => Ok(badge::render(run)),
            Self::Badges => Ok(levels::badges(run)),
        }
    }
}

impl ReportRequest {
    /// Checks that the report's location can be written to, before a run that may take minutes.
    ///
    /// # Errors
    /// When it can't.
    pub fn prepare(&self) -> Result<(), ReportError> {
        prepare(&self.path)
    }

    /// Writes the report.
    ///
    /// # Errors
    /// When it can't be rendered, or the file can't be written.
    pub fn write(&self, run: &Run) -> Result<(), ReportError> {
        write_file(&self.path, &self.format.render(run)?)
    }
}

/// Writes a report to a file, creating its parent directories; `-` is standard output.
///
/// # Errors
/// When the file can't be written.
pub fn write_file(path: &Path, text: &str) -> Result<(), ReportError> {
    if path == Path::new("-") {
        use std::io::Write;
        let written = io::stdout().lock().write_all(text.as_bytes());
        return written.map_err(ReportError::Stdout);
    }
    prepare(path)?;
    files::replace(path, text).map_err(|source| unwritable(path, source))
}

/// Creates the parent directories of a file that will be written.
fn prepare(path: &Path) -> Result<(), ReportError> {
    if path == Path::new("-") {
        return Ok(());
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(directory).map_err(|source| unwritable(directory, source))?;
    if path.is_dir() {
        return Err(ReportError::Directory {
            path: path.to_owned(),
        });
    }
    let held = if path.exists() { path } else { directory };
    nix::unistd::access(held, nix::unistd::AccessFlags::W_OK)
        .map_err(|errno| unwritable(held, errno.into()))
}

fn unwritable(path: &Path, source: io::Error) -> ReportError {
    ReportError::Unwritable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A minimal record of a case.
    pub(crate) fn record(id: &str, status: Status) -> CaseRecord {
        let section = id.split('/').next().unwrap_or_default();
        CaseRecord {
            id: id.to_owned(),
            page: "lang.page".to_owned(),
            section: section.to_owned(),
            place: "lang/page.md:1".to_owned(),
            transport: Some(Transport::Stdio),
            status,
            ..CaseRecord::default()
        }
    }

    /// A run of these cases.
    pub(crate) fn run(target: &str, cases: Vec<CaseRecord>) -> Run {
        Run {
            format: FORMAT,
            harness: "ptc-conformance 0".to_owned(),
            target: target.to_owned(),
            server: None,
            suite_cases: cases.len(),
            suite_digest: None,
            partial: false,
            interrupted: false,
            strict: false,
            duration_ms: 1,
            cases,
            complaints: Vec::new(),
        }
    }
}
