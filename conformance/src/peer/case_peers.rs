//! Sets up the peers of a case: writes their scripts, starts those that listen, and creates the upstreams configuration that reaches
//! them. Knows nothing of verdicts.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use indexmap::IndexMap;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Map, Value, json};

use super::script::{PeerKind, Script};
use super::{PeerError, tls};
use crate::files;

/// Names the command that runs peers, when the running program is not `ptc-conformance` itself.
const COMMAND_VARIABLE: &str = "PTC_CONFORMANCE_COMMAND";
const COMMAND_NAME: &str = "ptc-conformance";

/// The peers of one case. Those that listen end with it.
#[derive(Debug, Default)]
pub struct CasePeers {
    directory: PathBuf,
    listening: Vec<ListeningPeer>,
    entries: Map<String, Value>,
    /// The values of `peer.NAME.command` and the like.
    words: Vec<(String, String)>,
}

#[derive(Debug)]
struct ListeningPeer {
    child: Child,
    /// The peer exits when this is closed.
    _input: Option<ChildStdin>,
}

impl Drop for ListeningPeer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl CasePeers {
    /// Writes and starts the peers of a target block, those that refer to another one last. `expand` fills in the block's own
    /// placeholders.
    ///
    /// # Errors
    /// When a script is wrong, or a peer did not start.
    pub fn set_up<V: std::fmt::Display>(
        directory: &Path,
        scripts: &IndexMap<String, V>,
        expand: impl Fn(&str) -> String,
    ) -> Result<Self, PeerError> {
        let directory = directory.join("peers");
        let mut peers = Self {
            directory,
            ..Self::default()
        };
        if scripts.is_empty() {
            return Ok(peers);
        }
        std::fs::create_dir_all(&peers.directory).map_err(PeerError::file(&peers.directory))?;
        let command = command()?;
        let scripts = scripts
            .iter()
            .map(|(name, script)| (name, script.to_string()));
        let (naming, plain): (Vec<_>, Vec<_>) =
            scripts.partition(|(_, script)| script.contains("{{peer."));
        for (name, script) in plain.into_iter().chain(naming) {
            let script = peers.expand(&expand(&script));
            peers
                .add(name, &script, &command)
                .map_err(|source| PeerError::SetUp {
                    name: name.clone(),
                    source: Box::new(source),
                })?;
        }
        Ok(peers)
    }

    /// Fills in `{{peer.NAME.command}}`, `{{peer.NAME.script}}`, `{{peer.NAME.url}}` and `{{peer.NAME.authority}}`.
    pub fn expand(&self, text: &str) -> String {
        self.variables()
            .fold(text.to_owned(), |text, (name, word)| {
                text.replace(&format!("{{{{{name}}}}}"), word)
            })
    }

    /// The names `peer.NAME.command`, `peer.NAME.script`, `peer.NAME.url` and `peer.NAME.authority` with their values.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.words
            .iter()
            .map(|(name, word)| (name.as_str(), word.as_str()))
    }

    /// The upstreams configuration that reaches every peer, if there are any.
    pub fn upstreams(&self) -> Option<String> {
        (!self.entries.is_empty()).then(|| json!({"upstreams": self.entries}).to_string())
    }

    fn add(&mut self, name: &str, text: &str, command: &Path) -> Result<(), PeerError> {
        let path = script_path(&self.directory, name)?;
        let script = Script::read(text)?;
        std::fs::write(&path, text).map_err(PeerError::file(&path))?;
        let (command_text, path_text) = (command.to_string_lossy(), path.to_string_lossy());
        self.word(name, "command", &command_text);
        self.word(name, "script", &path_text);
        let mut entry = script.entry.clone();
        if script.kind == PeerKind::Stdio {
            let reached = json!({"transport": "mcp_stdio", "command": command_text, "args": ["peer", path_text]});
            fill(&mut entry, reached);
        } else {
            let (listening, url) = listen(command, &path)?;
            self.listening.push(listening);
            self.word(name, "url", &url);
            if script.tls {
                let authority = path.with_extension("pem");
                std::fs::write(&authority, tls::AUTHORITY).map_err(PeerError::file(&authority))?;
                self.word(name, "authority", &authority.to_string_lossy());
            }
            let reached = match script.kind {
                PeerKind::Http => {
                    json!({"transport": "mcp_http", "url": url, "allow_insecure_http": true})
                }
                _ => json!({
                    "transport": "openapi",
                    "base_url": url,
                    "schema_url": format!("{url}/openapi.json"),
                    "allow_insecure_http": true,
                }),
            };
            fill(&mut entry, reached);
        }
        self.entries.insert(name.to_owned(), Value::Object(entry));
        Ok(())
    }

    fn word(&mut self, name: &str, what: &str, word: &str) {
        self.words
            .push((format!("peer.{name}.{what}"), word.to_owned()));
    }
}

/// Where a peer's script is: directly in the directory of peers, as its other files are.
fn script_path(peers: &Path, name: &str) -> Result<PathBuf, PeerError> {
    files::path_inside(peers, &format!("{name}.json"))
        .filter(|path| path.parent() == Some(peers))
        .ok_or(PeerError::Name)
}

/// The messages that the case's peer `name` has received so far, one JSON line each; `None` if the case has no such peer.
pub fn received(directory: &Path, name: &str) -> Option<String> {
    let script = script_path(&directory.join("peers"), name).ok()?;
    script
        .is_file()
        .then(|| read_left_file(&script.with_extension("received")).unwrap_or_default())
}

/// Kills the case's peer `name`, as a crash would.
///
/// # Errors
/// When there is no such peer, or it is not running.
pub fn kill_peer(directory: &Path, name: &str) -> Result<(), PeerError> {
    let path = script_path(&directory.join("peers"), name)?.with_extension("pid");
    let pid = read_left_file(&path)
        .and_then(|text| text.trim().parse::<i32>().ok())
        // A forged file must not make the harness signal a process group, or all processes.
        .filter(|pid| *pid > 1);
    let pid = pid.ok_or_else(|| PeerError::NotRunning {
        name: name.to_owned(),
    })?;
    kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(|source| PeerError::Kill {
        name: name.to_owned(),
        source,
    })
}

/// The contents of a file that a peer left. A target can write to the directory, too, and may have left anything there, such as a pipe.
fn read_left_file(path: &Path) -> Option<String> {
    let bytes = files::read_left_file(path, files::REPORT_BYTES_MAX)?;
    String::from_utf8(bytes).ok()
}

fn fill(entry: &mut Map<String, Value>, reached: Value) {
    if let Value::Object(reached) = reached {
        for (key, value) in reached {
            entry.entry(key).or_insert(value);
        }
    }
}

fn listen(command: &Path, script: &Path) -> Result<(ListeningPeer, String), PeerError> {
    let mut child = Command::new(command)
        .arg("peer")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(PeerError::file(command))?;
    let input = child.stdin.take();
    let output = child.stdout.take();
    let listening = ListeningPeer {
        child,
        _input: input,
    };
    let mut url = String::new();
    let read = output.map(|output| std::io::BufReader::new(output).read_line(&mut url));
    match read {
        Some(Ok(count)) if count > 0 => Ok((listening, url.trim_end().to_owned())),
        _ => Err(PeerError::Ended),
    }
}

/// The command that runs peers: this program, or the one built next to it.
fn command() -> Result<PathBuf, PeerError> {
    if let Some(named) = std::env::var_os(COMMAND_VARIABLE) {
        return Ok(PathBuf::from(named));
    }
    let own = std::env::current_exe().map_err(PeerError::NoProgram)?;
    if own.file_stem().is_some_and(|name| name == COMMAND_NAME) {
        return Ok(own);
    }
    own.ancestors()
        .map(|directory| directory.join(COMMAND_NAME))
        .find(|candidate| candidate.is_file())
        .ok_or(PeerError::NoCommand {
            command: COMMAND_NAME,
            variable: COMMAND_VARIABLE,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_names_stay_inside_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["../x", "/x", "../", "a/b", "a/", "a\0b"] {
            let peers = IndexMap::from([(name.to_owned(), json!({"kind": "stdio"}))]);
            let refused =
                CasePeers::set_up(directory.path(), &peers, str::to_owned).expect_err(name);
            let refused = refused.to_string();
            assert!(refused.contains("a name that can be a file's"), "{refused}");
        }
        let left = std::fs::read_dir(directory.path().join("peers")).expect("made");
        assert_eq!(left.count(), 0);
        assert!(!directory.path().join("x.json").exists());
        // Neither do the steps that name a peer.
        for extension in ["json", "received", "pid"] {
            let outside = directory.path().join("x").with_extension(extension);
            std::fs::write(outside, std::process::id().to_string()).expect("written");
        }
        let absolute = directory.path().join("x").display().to_string();
        for name in ["../x", absolute.as_str()] {
            assert_eq!(received(directory.path(), name), None, "{name}");
            let refused = kill_peer(directory.path(), name)
                .expect_err(name)
                .to_string();
            assert!(refused.contains("a name that can be a file's"), "{refused}");
        }
    }
}
