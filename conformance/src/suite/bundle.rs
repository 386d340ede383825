//! Writes the whole suite as one JSON document, for runners that don't read Markdown, and reads it back.
//! Ids and verdicts are the same in either form.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Suite, SuiteFault};

/// The value of `format`.
pub const FORMAT: &str = "ptc-conformance-suite";

/// The version of the model. It is raised when an older reader would misjudge a newer bundle.
pub const VERSION: u32 = 1;

/// A suite in the form in which it is exported to other runners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Always `ptc-conformance-suite`.
    pub format: String,
    /// Version of this model.
    pub version: u32,
    /// The suite.
    pub suite: Suite,
}

/// Why a bundle can't be read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Not JSON of this shape.
    #[error("expected a suite bundle: {0}")]
    Malformed(serde_json::Error),
    /// Another format, or a version that this runner doesn't support.
    #[error("expected {FORMAT} version {VERSION}, found {format} version {version}")]
    Unknown {
        /// `format`, as found.
        format: String,
        /// `version`, as found.
        version: u32,
    },
    /// Duplicate ids, or references to ids that are not declared.
    #[error("the bundle contradicts itself:{}", lines(.0))]
    Inconsistent(Vec<SuiteFault>),
}

fn lines(faults: &[SuiteFault]) -> String {
    let line = |fault: &SuiteFault| format!("\n{}:{}: {}", fault.file, fault.line, fault.message);
    faults.iter().map(line).collect()
}

/// The bundle's text, indented, ending with a newline.
///
/// # Errors
/// Never fails for a suite that was read from fixtures or from a bundle.
pub fn write(suite: &Suite) -> Result<String, serde_json::Error> {
    let bundle = Bundle {
        format: FORMAT.to_owned(),
        version: VERSION,
        suite: suite.clone(),
    };
    serde_json::to_string_pretty(&bundle).map(|text| text + "\n")
}

/// Reads the suite from a bundle's text.
///
/// # Errors
/// When the text isn't a bundle, has another version, or its ids are inconsistent.
pub fn read(text: &str) -> Result<Suite, BundleError> {
    let bundle: Bundle = serde_json::from_str(text).map_err(BundleError::Malformed)?;
    if bundle.format != FORMAT || bundle.version != VERSION {
        return Err(BundleError::Unknown {
            format: bundle.format,
            version: bundle.version,
        });
    }
    let faults = bundle.suite.duplicates();
    if faults.is_empty() {
        Ok(bundle.suite)
    } else {
        Err(BundleError::Inconsistent(faults))
    }
}

/// The JSON Schema of a bundle, indented, ending with a newline.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Bundle);
    let text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text + "\n"
}
