//! Which file is the upstreams config: flag, then environment, then the XDG default. Opens no file; only checks whether the
//! default exists.

use std::path::PathBuf;

/// Where a program looks for its upstreams config.
#[derive(Debug, Clone, Default)]
pub struct ConfigLookup<'a> {
    /// `--upstreams-config`.
    pub flag: Option<PathBuf>,
    /// The environment variable to read (`PTC_RUNNER_MCP_UPSTREAMS` for the server, `PTC_RUNNER_UPSTREAMS` for the REPL).
    pub variable: &'a str,
    /// Whether the default file is looked for (the server does, the REPL does not).
    pub default_file: bool,
}

/// The file to load, or `None` when upstreams are not configured. A file named by flag or environment is returned whether it
/// exists or not: naming a missing file is a mistake that loading reports.
pub fn resolve_path(
    lookup: &ConfigLookup<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    if let Some(flag) = &lookup.flag {
        return Some(flag.clone());
    }
    if let Some(path) = set(lookup.variable) {
        return Some(PathBuf::from(path));
    }
    if !lookup.default_file {
        return None;
    }
    // A relative XDG_CONFIG_HOME is invalid and ignored, as the XDG base directory specification requires.
    let xdg = set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = set("HOME").map(|home| PathBuf::from(home).join(".config"));
    [xdg, home]
        .into_iter()
        .flatten()
        .map(|base| base.join("ptc_runner_mcp").join("upstreams.json"))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_then_environment_then_default() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".config/ptc_runner_mcp/upstreams.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let env = |set: &'static str| {
            let home = home.path().to_str().unwrap().to_owned();
            move |name: &str| match name {
                "HOME" => Some(home.clone()),
                "VAR" => Some(set.to_owned()),
                _ => None,
            }
        };
        let mut lookup = ConfigLookup {
            flag: None,
            variable: "VAR",
            default_file: true,
        };
        assert_eq!(resolve_path(&lookup, &env("")), None);
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(resolve_path(&lookup, &env("")), Some(file));
        assert_eq!(
            resolve_path(&lookup, &env("/e.json")),
            Some("/e.json".into())
        );
        lookup.flag = Some("/f.json".into());
        assert_eq!(
            resolve_path(&lookup, &env("/e.json")),
            Some("/f.json".into())
        );
        let repl = ConfigLookup {
            flag: None,
            variable: "OTHER",
            default_file: false,
        };
        assert_eq!(resolve_path(&repl, &env("/e.json")), None);
    }
}
