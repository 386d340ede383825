//! Plants faults into the reference and judges them by the suite alone: a fault that it does not catch means a missing case, or it
//! changes nothing, or nobody can observe it. Knows how to build and to run; `faults` knows where faults can be planted.

pub mod excused;
mod faults;
mod quick;
mod tables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use conformance::report::{Run, Status};
use conformance::suite::{Suite, page_name};
use conformance::target::reference::cargo;
use serde::{Deserialize, Serialize};

use anyhow::{Context, Error, Result, bail};

/// The sample, and how long it is judged.
#[derive(Args)]
pub struct MutantsOptions {
    /// Number of faults to plant, drawn from all possible ones
    #[arg(long, default_value_t = 100)]
    sample: usize,
    /// Seed for drawing the sample. A sample that already exists is resumed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only in files whose path contains this; repeatable
    #[arg(long = "in", value_name = "PATH")]
    within: Vec<String>,
    /// With `--quick`, judge only by pages whose name begins with this, such as `lib.`; repeatable
    #[arg(long = "by", value_name = "PAGE", requires = "quick")]
    by: Vec<String>,
    /// Judge uncaught faults again, by every case that reaches them, after the suite has grown
    #[arg(long)]
    again: bool,
    /// Judge by single cases that reach a fault: a second to a minute per fault. Run again without this for the rest
    #[arg(long)]
    quick: bool,
    /// Stop after this many minutes; the next run resumes
    #[arg(long)]
    minutes: Option<u64>,
    /// Target directory for the reference with the faults. A copy of an up-to-date target directory saves building the dependencies
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Write a table of the results, as Markdown
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

/// The packages whose faults the suite must catch.
const JUDGED: &[&str] = &[
    "json", "lang", "outbound", "protocol", "rpc", "upstream", "secrets", "agent", "server",
    "commands",
];
/// Files that are not part of the server that users start: checks, fuzzers, simulations, other executables. Also those that only a
/// terminal, another feature, a run with `--isolation process` or Redis reaches; and memory accounting: it determines when limits apply.
const LEFT_OUT: &[&str] = &[
    "checks",
    "fuzz",
    "heap.rs",
    "heap_size.rs",
    "simulate",
    "tests",
    "main.rs",
    "tests.rs",
    "check.rs",
    "fuzz.rs",
    "testee",
    "editor.rs",
    "otlp.rs",
    "isolation",
    "snapshot",
    "redis.rs",
];
/// Further targets that are built together with an executable: those with most of the dependencies, and the whole workspace, so that
/// features and profiles are the same as in every other build, and an up-to-date target directory can be reused. The example links least.
const SHARED_TARGETS: &[&str] = &[
    "--workspace",
    "--bin",
    "tools",
    "--example",
    "measure_redactor",
];
/// Time limit of a run of the suite, as a multiple of its duration without a fault; and the minimum.
const PATIENCE: u32 = 6;
const PATIENCE_MIN: Duration = Duration::from_secs(60);
/// Maximum number of attempts to build without the faults that don't compile.
const BUILDS_MAX: usize = 12;
/// Memory limit of a server with a fault, in kilobytes.
const MEMORY_MAX: u64 = 6 << 20;

/// A planted fault, and its verdict.
#[derive(Serialize, Deserialize, Clone)]
struct PlantedFault {
    id: u32,
    file: String,
    line: usize,
    function: String,
    what: String,
    /// The suite's verdict; `None` if it is not judged yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verdict: Option<FaultVerdict>,
}

impl PlantedFault {
    /// Words by which a related case can be recognised: those of the fault's location and of its change.
    fn words(&self) -> Vec<String> {
        let parts = [&self.file, &self.function, &self.what];
        let words = parts.into_iter().flat_map(|part| {
            part.split(|sign: char| !sign.is_alphanumeric() && !"-?!".contains(sign))
        });
        let mut words: Vec<String> = words
            .filter(|word| word.len() > 2 && !UNSPECIFIC_WORDS.contains(word))
            .map(str::to_lowercase)
            .collect();
        words.sort_unstable();
        words.dedup();
        words
    }
}

/// Words in locations and descriptions that say nothing about a fault.
const UNSPECIFIC_WORDS: &[&str] = &[
    "becomes",
    "change",
    "fault",
    "for",
    "gives",
    "lang",
    "mod",
    "none",
    "places",
    "ptc",
    "reference",
    "returns",
    "row",
    "self",
    "server",
    "some",
    "src",
    "the",
    "upstream",
    "what",
    "whatever",
    "without",
];

#[derive(Serialize, Deserialize, Clone, PartialEq)]
#[serde(rename_all = "snake_case")]
enum FaultVerdict {
    /// Caught by the case that failed.
    Caught(String),
    /// No program or frame of the suite reached it.
    Unreached,
    /// All single cases that were tried passed.
    Asked,
    Survived,
}

/// A sample, as saved between runs.
#[derive(Serialize, Deserialize)]
struct Sample {
    /// The number of faults to draw from.
    possible: usize,
    /// The number of faults in the sample that didn't compile.
    unviable: usize,
    faults: Vec<PlantedFault>,
    /// For each fault, the pages whose cases reach it.
    reached: BTreeMap<u32, BTreeSet<String>>,
    /// Cases that fail without any fault.
    failing: Vec<String>,
    /// Duration of the whole suite in milliseconds.
    takes_ms: u64,
}

/// Plants, judges and prints.
///
/// # Errors
/// When something can't be copied, built or run.
pub fn run(options: &MutantsOptions) -> Result<()> {
    let began = Instant::now();
    let home = crate::root()
        .join("target/mutants")
        .join(format!("{}-{}", options.sample, options.seed));
    let sample_directory = SampleDirectory {
        tree: home.join("tree"),
        // Cargo is run in the tree with the faults, where a relative path would name another directory.
        target: match &options.target_dir {
            Some(directory) => std::path::absolute(directory)?,
            None => crate::root().join("target/mutants/build"),
        },
        // It also runs the peers.
        harness: harness()?,
        home,
    };
    let suite = crate::suite()?;
    // A copy of the pages, so that edits during the run have no effect.
    let _absent = crate::guarded_fs::remove(&sample_directory.pages());
    copy_tracked(&crate::root(), "spec", &sample_directory.home)?;
    let mut sample = match sample_directory.read()? {
        Some(sample) => sample,
        None => sample_directory.draw_and_build(options)?,
    };
    for fault in &mut sample.faults {
        let is_open = match &fault.verdict {
            Some(FaultVerdict::Caught(_)) => false,
            Some(FaultVerdict::Asked) => options.again || !options.quick,
            _ => options.again,
        };
        if is_open {
            fault.verdict = None;
        }
    }
    if !options.quick && (options.again || sample.reached.is_empty()) {
        sample_directory.prepare_full(&mut sample, &suite)?;
    }
    let mut quick = match options.quick {
        true => Some(sample_directory.prepare_quick(options)?),
        false => None,
    };
    let excused = excused::ExcusedFaults::load()?;
    for at in 0..sample.faults.len() {
        if sample.faults[at].verdict.is_some() {
            continue;
        }
        if options
            .minutes
            .is_some_and(|minutes| began.elapsed().as_secs() >= minutes * 60)
        {
            break;
        }
        let fault = &sample.faults[at];
        let is_excused = excused
            .find(&fault.file, &fault.function, &fault.what)
            .is_some();
        let verdict = match &mut quick {
            Some(quick) => quick
                .judge(&quick::JudgedFault {
                    id: fault.id,
                    file: &fault.file,
                    words: fault.words(),
                    is_excused,
                })?
                .map_or(FaultVerdict::Asked, FaultVerdict::Caught),
            None => sample_directory.judge(&sample, &sample.faults[at])?,
        };
        sample.faults[at].verdict = Some(verdict);
        sample_directory.save(&sample)?;
        crate::write_stdout(&format!("{}\n", display_line(&sample.faults[at])));
    }
    let table = table(&sample, options, &excused);
    crate::write_stdout(&table);
    if let Some(path) = &options.table {
        crate::guarded_fs::write(path, &table)?;
    }
    Ok(())
}

fn display_line(fault: &PlantedFault) -> String {
    let verdict = match &fault.verdict {
        Some(FaultVerdict::Caught(case)) => format!("caught by {case}"),
        Some(FaultVerdict::Unreached) => "NOT REACHED".to_owned(),
        Some(FaultVerdict::Asked) => "SURVIVED single cases".to_owned(),
        Some(FaultVerdict::Survived) => "SURVIVED".to_owned(),
        None => "not judged".to_owned(),
    };
    let PlantedFault {
        id,
        file,
        line,
        function,
        what,
        ..
    } = fault;
    format!("{id} {file}:{line} {function}: {what}: {verdict}")
}

/// The score of each file, and the faults that were not caught.
fn table(sample: &Sample, options: &MutantsOptions, excused: &excused::ExcusedFaults) -> String {
    let mut files: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut open = String::new();
    let (mut unobservable, mut equivalent) = (0, 0);
    for fault in &sample.faults {
        let Some(verdict) = &fault.verdict else {
            continue;
        };
        let (caught, judged) = files.entry(&fault.file).or_default();
        *judged += 1;
        if matches!(verdict, FaultVerdict::Caught(_)) {
            *caught += 1;
            continue;
        }
        let why = excused.find(&fault.file, &fault.function, &fault.what);
        match why.map(|why| why.kind) {
            Some(excused::Excuse::Unobservable) => unobservable += 1,
            Some(excused::Excuse::Equivalent) => equivalent += 1,
            None => {}
        }
        let why = why.map_or_else(
            || "not read".to_owned(),
            |why| format!("{}: {}", why.kind.word(), why.reason),
        );
        let _infallible = writeln!(open, "- {}: {why}", display_line(fault));
    }
    let sum = |part: fn(&(usize, usize)) -> usize| files.values().map(part).sum::<usize>();
    let (caught, judged) = (sum(|row| row.0), sum(|row| row.1));
    let mut text = format!(
        "# Faults that the suite catches\n\nWritten by `cargo tool mutants --sample {} --seed {} --table FILE`: faults planted into the reference one at a time, judged by the \
         suite alone.\nTables and constants have faults, too; what only counts steps and bytes, for limits whose place nobody promises, is not drawn.\nOf {} possible ones {} were drawn; {} of them don't compile, {} were judged, {} of those were caught: {}.\n\
         {unobservable} of the others change what no sentence of the specification promises; without them: {}. {equivalent} change no answer at all; without \
         these, too: {}.\n\n\
         | File | Caught | Judged |\n|---|--:|--:|\n",
        options.sample,
        options.seed,
        sample.possible,
        sample.faults.len() + sample.unviable,
        sample.unviable,
        judged,
        caught,
        share(caught, judged),
        share(caught, judged - unobservable),
        share(caught, judged - unobservable - equivalent),
    );
    for (file, (caught, judged)) in &files {
        let _infallible = writeln!(text, "| {file} | {caught} | {judged} |");
    }
    let _infallible = write!(text, "\n## Not caught\n\n{open}");
    text
}

fn share(part: usize, whole: usize) -> String {
    match whole {
        0 => "none".to_owned(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

/// The directories and programs for one sample.
struct SampleDirectory {
    home: PathBuf,
    tree: PathBuf,
    target: PathBuf,
    harness: PathBuf,
}

impl SampleDirectory {
    /// The specification as it was when this run began.
    fn pages(&self) -> PathBuf {
        self.home.join("spec")
    }

    /// The reference with this sample's faults.
    fn server(&self) -> PathBuf {
        self.home.join("server")
    }

    fn plan(&self) -> PathBuf {
        self.home.join("sample.json")
    }

    fn read(&self) -> Result<Option<Sample>> {
        match std::fs::read(self.plan()) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .with_context(|| self.plan().display().to_string()),
            Err(_) => Ok(None),
        }
    }

    fn save(&self, sample: &Sample) -> Result<()> {
        let text = serde_json::to_vec_pretty(sample)?;
        let part = self.home.join("sample.json.part");
        crate::guarded_fs::write(&part, text)?;
        Ok(crate::guarded_fs::rename(&part, &self.plan())?)
    }

    /// Draws a sample and builds it.
    fn draw_and_build(&self, options: &MutantsOptions) -> Result<Sample> {
        copy_tracked(&crate::root(), ".", &self.tree)?;
        self.empty_tools()?;
        let sources = sources(&options.within)?;
        let mut all: Vec<(usize, faults::PlantableFault)> = Vec::new();
        for (at, (_, text)) in sources.iter().enumerate() {
            all.extend(faults::find(text).into_iter().map(|fault| (at, fault)));
        }
        let possible = all.len();
        fastrand::Rng::with_seed(options.seed).shuffle(&mut all);
        all.truncate(options.sample);
        let (faults, unviable) = self.build(&sources, &all)?;
        // The next sample is built in the same target directory.
        let built = self.target.join("debug/ptc");
        crate::guarded_fs::copy(&built, &self.server())
            .with_context(|| built.display().to_string())?;
        let sample = Sample {
            possible,
            unviable,
            faults,
            reached: BTreeMap::new(),
            failing: Vec::new(),
            takes_ms: 0,
        };
        self.save(&sample)?;
        Ok(sample)
    }

    /// Empties the tools in the copy, where only their dependencies are needed; the harness takes longer to build than the reference.
    fn empty_tools(&self) -> Result<()> {
        let tools = self.tree.join("tools");
        let manifest = tools.join("Cargo.toml");
        let text = crate::guarded_fs::read_to_string(&manifest)?;
        let text = text.replace("conformance.workspace = true\n", "");
        crate::guarded_fs::write(&manifest, text)?;
        crate::guarded_fs::write(&tools.join("src/main.rs"), "fn main() {}\n")?;
        Ok(())
    }

    /// Prepares a run of the whole suite: determines the failures and the duration without a fault, and which pages reach which faults.
    fn prepare_full(&self, sample: &mut Sample, suite: &Suite) -> Result<()> {
        let began = Instant::now();
        let report = self.home.join("without.json");
        self.suite(
            None,
            &["--report", &format!("json={}", report.display())],
            Duration::from_secs(1800),
        )?;
        sample.takes_ms = began.elapsed().as_millis() as u64;
        if !report.exists() {
            bail!(
                "the reference does not start with every fault off: {}",
                self.home.join("ptc").display()
            );
        }
        let run = Run::read(&report)?;
        let failing = run.cases.iter().filter(|case| case.status == Status::Fail);
        sample.failing = failing.map(|case| case.id.clone()).collect();
        sample.reached = self.pages_by_fault(suite)?;
        self.save(sample)
    }

    /// Prepares judging with servers that keep running, in which faults can be switched.
    fn prepare_quick(&self, options: &MutantsOptions) -> Result<quick::QuickJudge> {
        let map = self.home.join("map");
        let file = quick::FaultMap::new(&map)?;
        self.script(&format!("PLANTED_FAULT_MAP='{}'", map.display()))?;
        let mut suite = conformance::fixture::load(&self.pages())?;
        suite.cases.retain(|case| {
            let page = page_name(case);
            options.by.is_empty() || options.by.iter().any(|by| page.starts_with(by.as_str()))
        });
        let quick = quick::QuickJudge::prepare(
            suite,
            &self.home.join("ptc"),
            file,
            &self.home.join("seen.json"),
            options.again,
        )?;
        if quick.cases() == 0 {
            bail!(
                "{}: expected cases that pass and reach a fault, found none: is it the server with the faults?",
                self.home.join("server").display()
            );
        }
        crate::write_stdout(&format!("{} cases judge\n", quick.cases()));
        Ok(quick)
    }

    /// Builds the reference with as many of the faults as compile. Returns them, and the number of the others.
    fn build(
        &self,
        sources: &[(String, String)],
        all: &[(usize, faults::PlantableFault)],
    ) -> Result<(Vec<PlantedFault>, usize)> {
        let mut unviable: BTreeSet<u32> = BTreeSet::new();
        for _ in 0..BUILDS_MAX {
            let mut planted: BTreeMap<u32, PlantedFault> = BTreeMap::new();
            let mut ranges: HashMap<String, Vec<(std::ops::Range<usize>, u32)>> = HashMap::new();
            for (at, (file, text)) in sources.iter().enumerate() {
                let here: Vec<(u32, &faults::PlantableFault)> = (1..)
                    .zip(all)
                    .filter(|(id, (of, _))| *of == at && !unviable.contains(id))
                    .map(|(id, (_, fault))| (id, fault))
                    .collect();
                let is_root = file.ends_with("/src/lib.rs");
                let (mut text, done) = faults::plant(text, &here);
                ranges.insert(
                    file.clone(),
                    done.iter()
                        .map(|(id, range)| (range.clone(), *id))
                        .collect(),
                );
                for (id, fault) in here
                    .into_iter()
                    .filter(|(id, _)| done.iter().any(|(done, _)| done == id))
                {
                    let (line, function, what) =
                        (fault.line, fault.function.clone(), fault.what.clone());
                    planted.insert(
                        id,
                        PlantedFault {
                            id,
                            file: file.clone(),
                            line,
                            function,
                            what,
                            verdict: None,
                        },
                    );
                }
                if is_root {
                    // The replacement has the same length, so that the compiler's positions remain correct.
                    text = text.replace("#![forbid(unsafe_code)]", "#![allow(unsafe_code)] ");
                    text.push_str(faults::MODULE);
                }
                // A file that has lost its last fault must be written, too: it may still contain one that doesn't compile.
                let path = self.tree.join(file);
                if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
                    continue;
                }
                crate::guarded_fs::write(&path, text)?;
            }
            let wrong = self.compile(&ranges)?;
            if wrong.is_empty() {
                return Ok((planted.into_values().collect(), unviable.len()));
            }
            crate::write_stdout(&format!("{} faults don't compile\n", wrong.len()));
            unviable.extend(wrong);
        }
        bail!("after {BUILDS_MAX} builds there are still faults that don't compile")
    }

    /// Compiles the tree. Returns the faults that errors point to.
    fn compile(
        &self,
        ranges: &HashMap<String, Vec<(std::ops::Range<usize>, u32)>>,
    ) -> Result<BTreeSet<u32>> {
        let output = cargo()
            .args(["build", "--quiet", "--offline", "--bin", "ptc"])
            .args(SHARED_TARGETS)
            .args(["--message-format=json", "--target-dir"])
            .arg(&self.target)
            .current_dir(&self.tree)
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .context("cargo")?;
        let mut wrong = BTreeSet::new();
        let mut stray = None;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else {
                continue;
            };
            let message = &line["message"];
            if message["level"] != "error" {
                continue;
            }
            let spans = message["spans"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            let hit = |primary: bool| -> Option<u32> {
                spans
                    .iter()
                    .filter(|span| span["is_primary"] == primary)
                    .find_map(|span| {
                        let (file, start) = (
                            span["file_name"].as_str()?,
                            span["byte_start"].as_u64()? as usize,
                        );
                        let ranges = ranges.get(file)?;
                        ranges
                            .iter()
                            .find(|(range, _)| range.contains(&start))
                            .map(|(_, id)| *id)
                    })
            };
            match hit(true).or_else(|| hit(false)) {
                Some(id) => drop(wrong.insert(id)),
                None if spans.is_empty() => {}
                None => stray = Some(message["rendered"].to_string()),
            }
        }
        match (output.status.success(), wrong.is_empty(), stray) {
            (true, _, _) => Ok(BTreeSet::new()),
            (false, false, _) => Ok(wrong),
            (false, true, stray) => bail!(
                "the reference with faults does not compile: {}",
                stray.unwrap_or_default()
            ),
        }
    }

    /// The pages that reach each fault.
    fn pages_by_fault(&self, suite: &Suite) -> Result<BTreeMap<u32, BTreeSet<String>>> {
        let pages: BTreeSet<String> = suite.cases.iter().map(page_name).collect();
        let mut reached: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        let path = self.home.join("map");
        let map = quick::FaultMap::new(&path)?;
        for page in pages {
            self.run(
                &format!("PLANTED_FAULT_MAP='{}'", path.display()),
                &["--filter", &page],
                Duration::from_secs(900),
            )?;
            for id in map.take_reached()? {
                reached.entry(id).or_default().insert(page.clone());
            }
        }
        Ok(reached)
    }

    /// The suite's verdict on a fault. Pages about the fault's part of the reference run first, then the others, and cases that wait last.
    fn judge(&self, sample: &Sample, fault: &PlantedFault) -> Result<FaultVerdict> {
        let Some(pages) = sample.reached.get(&fault.id) else {
            return Ok(FaultVerdict::Unreached);
        };
        let is_language = fault.file.starts_with("reference/lang")
            || fault.file.starts_with("reference/protocol");
        let (near, far): (Vec<&str>, Vec<&str>) =
            pages.iter().map(String::as_str).partition(|page| {
                is_language
                    == ["lang.", "lib.", "protocol."]
                        .iter()
                        .any(|part| page.starts_with(part))
            });
        let all: Vec<&str> = pages.iter().map(String::as_str).collect();
        let patience = PATIENCE_MIN.max(Duration::from_millis(sample.takes_ms) * PATIENCE);
        let report = self.home.join("judged.json");
        for (pages, waiting) in [(near, false), (far, false), (all, true)] {
            if pages.is_empty() {
                continue;
            }
            let mut arguments: Vec<&str> = vec!["--fail-fast"];
            let written = format!("json={}", report.display());
            arguments.extend(["--report", &written]);
            if !waiting {
                arguments.push("--skip-waiting");
            }
            arguments.extend(pages.iter().flat_map(|page| ["--filter", page]));
            arguments.extend(
                sample
                    .failing
                    .iter()
                    .flat_map(|case| ["--skip", case.as_str()]),
            );
            let _absent = crate::guarded_fs::remove(&report);
            let status = self.suite(Some(fault.id), &arguments, patience)?;
            match status.and_then(|status| status.code()) {
                Some(0) => {}
                // Without waiting cases, a page may have no cases left to run.
                Some(1) => {
                    if let Some(case) = Run::read(&report).ok().and_then(|run| failed(&run))
                        && self.fails_by_fault(fault, &case, patience)?
                    {
                        return Ok(FaultVerdict::Caught(case));
                    }
                }
                Some(_) => return Ok(FaultVerdict::Caught("the start of the server".to_owned())),
                None => {
                    return Ok(FaultVerdict::Caught(
                        "the clock: the suite took too long".to_owned(),
                    ));
                }
            }
        }
        Ok(FaultVerdict::Survived)
    }

    /// Whether a case fails because of a fault: run alone, it fails with the fault and passes without. On a busy machine others fail, too.
    fn fails_by_fault(&self, fault: &PlantedFault, case: &str, patience: Duration) -> Result<bool> {
        let passes = |on| {
            let status = self.suite(on, &["--filter", case], patience)?;
            Ok::<_, Error>(status.and_then(|status| status.code()) == Some(0))
        };
        Ok(!passes(Some(fault.id))? && passes(None)?)
    }

    /// Runs the suite with a fault active.
    fn suite(
        &self,
        fault: Option<u32>,
        arguments: &[&str],
        patience: Duration,
    ) -> Result<Option<ExitStatus>> {
        self.run(
            &format!("PLANTED_FAULT={}", fault.unwrap_or(0)),
            arguments,
            patience,
        )
    }

    /// Writes the script that starts the server with a variable.
    fn script(&self, variable: &str) -> Result<PathBuf> {
        let ptc = self.server();
        let script = self.home.join("ptc");
        let text = format!(
            "#!/bin/sh\nulimit -v {MEMORY_MAX}\n{variable} exec '{}' \"$@\"\n",
            ptc.display()
        );
        // A script that is being executed can't be written, only replaced.
        let part = self.home.join("ptc.part");
        crate::guarded_fs::create(&part)?
            .write_all(text.as_bytes())
            .with_context(|| part.display().to_string())?;
        crate::guarded_fs::make_executable(&part)?;
        crate::guarded_fs::rename(&part, &script)?;
        Ok(script)
    }

    /// Runs the suite against a server that is started with a variable. Returns `None` if it took too long. Strict, so that a fault that
    /// violates only a SHOULD is caught, too, and cases that warn without a fault don't judge.
    fn run(
        &self,
        variable: &str,
        arguments: &[&str],
        patience: Duration,
    ) -> Result<Option<ExitStatus>> {
        let script = self.script(variable)?;
        let mut harness = Command::new(&self.harness)
            .args(["run", "--quiet", "--strict", "--transport", "stdio"])
            .arg("--reference")
            .arg(&script)
            .arg("--suite")
            .arg(self.pages())
            .args(arguments)
            .current_dir(crate::root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| self.harness.display().to_string())?;
        let began = Instant::now();
        loop {
            if let Some(status) = harness.try_wait()? {
                return Ok(Some(status));
            }
            if began.elapsed() > patience {
                // A harness that is asked to stop ends its servers first.
                let _gone = Command::new("kill").arg(harness.id().to_string()).status();
                std::thread::sleep(Duration::from_secs(2));
                let _gone = harness.kill();
                let _gone = harness.wait();
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn failed(run: &Run) -> Option<String> {
    let failed = run.cases.iter().find(|case| case.status == Status::Fail);
    failed.map(|case| case.id.clone())
}

/// Builds the harness from the current sources.
fn harness() -> Result<PathBuf> {
    let status = cargo()
        .args(["build", "--quiet", "--bin", "ptc-conformance"])
        .args(SHARED_TARGETS)
        .current_dir(crate::root())
        .status()
        .context("cargo")?;
    if !status.success() {
        bail!("cargo build --bin ptc-conformance: {status}");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::root().join("target"), PathBuf::from);
    Ok(target.join("debug/ptc-conformance"))
}

/// The files into which faults are planted, with their texts.
fn sources(within: &[String]) -> Result<Vec<(String, String)>> {
    let root = crate::root();
    let mut found = Vec::new();
    for package in JUDGED {
        for path in
            crate::guarded_fs::files_below(&root.join("reference").join(package).join("src"), "rs")?
        {
            let name = path.strip_prefix(&root).unwrap_or(&path);
            let left_out = name
                .iter()
                .any(|part| LEFT_OUT.iter().any(|out| part == *out));
            let name = name.to_string_lossy().into_owned();
            let is_root = name.ends_with("/src/lib.rs");
            let wanted =
                within.is_empty() || within.iter().any(|part| name.contains(part.as_str()));
            if !left_out && (wanted || is_root) {
                let text = crate::guarded_fs::read_to_string(&path)?;
                found.push((name, text));
            }
        }
    }
    tables::prepare(&mut found);
    Ok(found)
}

/// Verdicts and lists that name what is not there any more: after a renaming they would silently apply to nothing.
///
/// # Errors
/// When the files cannot be read.
pub fn stale_names() -> Result<Vec<String>> {
    let excused = excused::ExcusedFaults::load()?;
    let sources = sources(&[])?;
    let mut plantable = Vec::new();
    for (file, text) in &sources {
        let faults = faults::find(text);
        plantable.extend(faults.into_iter().map(|fault| (file.as_str(), fault)));
    }
    let mut stale = excused.unmatched(|row| {
        let mut faults = plantable.iter();
        faults.any(|(file, fault)| row.matches(file, &fault.function, &fault.what))
    });
    let is_used = |name: &str| {
        let [definition, call] = [format!("fn {name}"), format!(".{name}(")];
        let mut texts = sources.iter().map(|(_, text)| text);
        texts.any(|text| text.contains(&definition) || text.contains(&call))
    };
    stale.extend(
        faults::ACCOUNTS
            .iter()
            .filter(|name| !is_used(name))
            .map(|name| {
                format!("tools/src/mutants/faults.rs: ACCOUNTS: no function is called `{name}`")
            }),
    );
    Ok(stale)
}

/// Copies the files that git tracks below `part`.
fn copy_tracked(from: &Path, part: &str, to: &Path) -> Result<()> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--", part])
        .current_dir(from)
        .output()
        .context("git")?;
    for name in output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = String::from_utf8_lossy(name).into_owned();
        let (source, copy) = (from.join(&name), to.join(&name));
        let made = copy
            .parent()
            .map_or(Ok(()), crate::guarded_fs::create_dir_all);
        made.and_then(|()| crate::guarded_fs::copy(&source, &copy))
            .with_context(|| name.to_string())?;
    }
    Ok(())
}
