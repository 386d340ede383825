//! Writes the suite as one JSON document for runners in other languages. Knows the bundle, not the
//! fixtures that it comes from.

use std::path::{Path, PathBuf};

use clap::Args;
use conformance::{fixture, suite::bundle};

use anyhow::{Context, Result, bail};

/// Input and output of the export.
#[derive(Args)]
pub struct ExportOptions {
    /// Directory of the specification [default: the workspace's spec/]
    #[arg(long, value_name = "DIR")]
    spec: Option<PathBuf>,
    /// File for the bundle
    #[arg(long, value_name = "FILE", default_value = "target/suite/bundle.json")]
    out: PathBuf,
    /// File for the bundle's JSON Schema
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/suite/bundle.schema.json"
    )]
    schema: PathBuf,
}

/// Exports the suite.
///
/// # Errors
/// When a fixture is malformed, a file can't be written, or the bundle violates its own schema.
pub fn run(options: &ExportOptions) -> Result<()> {
    let spec = options
        .spec
        .clone()
        .unwrap_or_else(|| crate::root().join("spec"));
    let suite = fixture::load(&spec)?;
    let text = bundle::write(&suite)?;
    let schema = bundle::schema();
    validate(&schema, &text)?;
    write(&options.out, &text)?;
    write(&options.schema, &schema)?;
    let (cases, bytes) = (suite.cases.len(), text.len());
    eprintln!("{}: {cases} cases, {bytes} bytes", options.out.display());
    Ok(())
}

fn validate(schema: &str, bundle: &str) -> Result<()> {
    let schema = serde_json::from_str(schema).context("the schema")?;
    let bundle = serde_json::from_str(bundle).context("the bundle")?;
    let validator = jsonschema::validator_for(&schema).context("the schema")?;
    let faults: Vec<String> = validator
        .iter_errors(&bundle)
        .take(10)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if faults.is_empty() {
        Ok(())
    } else {
        bail!("the bundle breaks its schema:\n{}", faults.join("\n"))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(directory) = path.parent() {
        crate::guarded_fs::create_dir_all(directory)?;
    }
    Ok(crate::guarded_fs::write(path, text)?)
}
