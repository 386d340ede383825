//! The address of a session store, as given by `--session-store`.

use percent_encoding::percent_decode_str;
use ptc_secrets::{RedactorBuilder, Secret};
use std::fmt;
use std::path::PathBuf;

/// The kind and place of a store.
#[derive(Clone, Debug)]
pub enum Address {
    /// `file:DIR`
    Directory(PathBuf),
    /// `redis://…` and its variants
    Redis(RedisAddress),
}

/// One or more Redis or Valkey servers.
#[derive(Clone, Debug, Default)]
pub struct RedisAddress {
    pub kind: Topology,
    /// Whether connections use TLS.
    pub tls: bool,
    /// Each as `host:port`.
    pub servers: Vec<String>,
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub database: i64,
}

/// How several servers work together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Topology {
    #[default]
    One,
    /// Sentinels that know the master of this name.
    Sentinel(String),
    Cluster,
}

/// The schemes, each with its topology and whether it uses TLS.
const SCHEMES: &[(&str, &str, bool)] = &[
    ("redis", "", false),
    ("rediss", "", true),
    ("redis+sentinel", "sentinel", false),
    ("rediss+sentinel", "sentinel", true),
    ("redis+cluster", "cluster", false),
    ("rediss+cluster", "cluster", true),
];

const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What is wrong with an address. Nothing of its text is repeated: it may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum StoreAddressFault {
    #[error("it begins with memory:, file: or {}", schemes())]
    Scheme,
    #[error("file: needs a directory, as in file:/var/lib/ptc")]
    NoDirectory,
    #[error("it may have no parameters behind a question mark")]
    Parameters,
    #[error("user or password are not percent-encoded as in a URL")]
    Login,
    #[error("behind the sentinels it needs the master's name, as in redis+sentinel://a,b/mymaster")]
    NoMaster,
    #[error("the database behind the slash is a number")]
    Database,
    #[error("there is more behind its slash than it may have")]
    Path,
    #[error("it names no host and port, as in redis://127.0.0.1:6379")]
    Server,
    #[error("several servers need redis+sentinel:// or redis+cluster://")]
    Servers,
}

fn schemes() -> String {
    let schemes = SCHEMES.iter().map(|(scheme, ..)| format!("{scheme}://"));
    schemes.collect::<Vec<_>>().join(", ")
}

impl Address {
    /// Reads an address; `memory:` gives `None`.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn read(text: &str) -> Result<Option<Address>, StoreAddressFault> {
        if text == "memory:" {
            return Ok(None);
        }
        if let Some(path) = text.strip_prefix("file:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.is_empty() {
                true => Err(StoreAddressFault::NoDirectory),
                false => Ok(Some(Address::Directory(PathBuf::from(path)))),
            };
        }
        let (scheme, rest) = text.split_once("://").ok_or(StoreAddressFault::Scheme)?;
        let (_, kind, tls) = SCHEMES
            .iter()
            .find(|(known, ..)| *known == scheme)
            .ok_or(StoreAddressFault::Scheme)?;
        RedisAddress::read(kind, *tls, rest).map(|redis| Some(Address::Redis(redis)))
    }

    /// Only the password, of a text that may be no address: it must not be shown either.
    pub fn password_only(text: &str) -> Option<Address> {
        let (login, _) = text.split_once("://")?.1.rsplit_once('@')?;
        let (_, written) = split_login(login);
        let password = percent_decode(written).unwrap_or_else(|| written.to_owned());
        Some(Address::Redis(RedisAddress {
            password: Some(Secret::new(password)),
            ..RedisAddress::default()
        }))
    }

    /// Registers the password as a secret that no reply or log line may show.
    pub fn add_secrets(&self, secrets: &mut RedactorBuilder) {
        if let Address::Redis(RedisAddress {
            password: Some(password),
            ..
        }) = self
        {
            secrets.add(password);
        }
    }
}

impl RedisAddress {
    fn read(kind: &str, tls: bool, rest: &str) -> Result<Self, StoreAddressFault> {
        let (rest, query) = rest
            .split_once('?')
            .map_or((rest, ""), |(rest, query)| (rest, query));
        if !query.is_empty() {
            return Err(StoreAddressFault::Parameters);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (user, password) = match login.map(split_login) {
            None => (None, None),
            Some((user, password)) => {
                let decode = |text: &str| percent_decode(text).ok_or(StoreAddressFault::Login);
                (Some(decode(user)?), Some(decode(password)?))
            }
        };
        let mut path = path.split('/').filter(|part| !part.is_empty());
        let kind = match kind {
            "sentinel" => {
                let master = path.next().ok_or(StoreAddressFault::NoMaster)?;
                Topology::Sentinel(master.to_owned())
            }
            "cluster" => Topology::Cluster,
            _ => Topology::One,
        };
        let database = match path.next() {
            None => 0,
            Some(number) => number
                .parse()
                .ok()
                .filter(|number| (0..=65_535).contains(number))
                .ok_or(StoreAddressFault::Database)?,
        };
        if path.next().is_some() || (kind == Topology::Cluster && database != 0) {
            return Err(StoreAddressFault::Path);
        }
        let port = match kind {
            Topology::Sentinel(_) => SENTINEL_PORT,
            Topology::One | Topology::Cluster => DEFAULT_PORT,
        };
        let servers = hosts
            .split(',')
            .map(|server| with_port(server, port))
            .collect::<Result<Vec<_>, _>>()?;
        if kind == Topology::One && servers.len() > 1 {
            return Err(StoreAddressFault::Servers);
        }
        Ok(RedisAddress {
            kind,
            tls,
            servers,
            user: user.filter(|user| !user.is_empty()),
            password: password.filter(|text| !text.is_empty()).map(Secret::new),
            database,
        })
    }
}

/// User and password of a login. Without a colon it is the password, as redis-cli reads it: a user without a password could not log in.
fn split_login(login: &str) -> (&str, &str) {
    login.split_once(':').unwrap_or(("", login))
}

/// `host:port`, with the default port if none is given.
fn with_port(server: &str, default: u16) -> Result<String, StoreAddressFault> {
    let (host, port) = match server.strip_prefix('[') {
        Some(v6) => {
            let (host, port) = v6.split_once(']').ok_or(StoreAddressFault::Server)?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or(StoreAddressFault::Server)?),
            };
            (format!("[{host}]"), port)
        }
        None => match server.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (server.to_owned(), None),
        },
    };
    let port = match port {
        None => default,
        Some(port) => port
            .parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or(StoreAddressFault::Server)?,
    };
    let usual = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    match !host.is_empty() && host.chars().all(usual) {
        true => Ok(format!("{host}:{port}")),
        false => Err(StoreAddressFault::Server),
    }
}

/// `None` for an invalid percent escape, which the library would leave as it is.
fn percent_decode(text: &str) -> Option<String> {
    let encodes = |behind: &str| {
        let digits = behind.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(encodes) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// The address without the password, for logs and messages.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Directory(path) => write!(f, "file:{}", path.display()),
            Address::Redis(redis) => {
                let kind = match redis.kind {
                    Topology::One => "",
                    Topology::Sentinel(_) => "+sentinel",
                    Topology::Cluster => "+cluster",
                };
                let tls = if redis.tls { "s" } else { "" };
                write!(f, "redis{tls}{kind}://{}", redis.servers.join(","))?;
                if let Topology::Sentinel(master) = &redis.kind {
                    write!(f, "/{master}")?;
                }
                match redis.database {
                    0 => Ok(()),
                    database => write!(f, "/{database}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_shown_without_passwords() {
        for (text, shown) in [
            ("file:/tmp/x", "file:/tmp/x"),
            ("file:///tmp/x", "file:/tmp/x"),
            ("file:x", "file:x"),
            ("redis://h", "redis://h:6379"),
            ("redis://:p%40ss@h:1/2", "redis://h:1/2"),
            ("rediss://u:p@[::1]:7", "rediss://[::1]:7"),
            (
                "redis+sentinel://a,b:5/main",
                "redis+sentinel://a:26379,b:5/main",
            ),
            (
                "redis+sentinel://a/main/3",
                "redis+sentinel://a:26379/main/3",
            ),
            ("rediss+cluster://a,b", "rediss+cluster://a:6379,b:6379"),
        ] {
            let address = Address::read(text).unwrap().unwrap();
            assert_eq!(address.to_string(), shown);
        }
        assert!(Address::read("memory:").unwrap().is_none());
        let Some(Address::Redis(redis)) = Address::read("redis://me:p%40ss@h").unwrap() else {
            panic!("it is one")
        };
        assert!(redis.password.unwrap().matches(b"p@ss"));
        assert_eq!(redis.user.as_deref(), Some("me"));
        let Some(Address::Redis(redis)) = Address::read("redis://p%40ss@h").unwrap() else {
            panic!("it is one")
        };
        assert!(redis.password.unwrap().matches(b"p@ss"));
        assert_eq!(redis.user, None);
    }

    #[test]
    fn address_errors_do_not_repeat_the_address() {
        for text in [
            "",
            "memory",
            "file:",
            "redis:",
            "http://secret@h",
            "redis://",
            "redis://h:0",
            "redis://h:x",
            "redis://secret@h/x",
            "redis://:secret%4@h",
            "redis://:secret%zz@h",
            "redis://a,b",
            "redis+sentinel://a",
            "redis+cluster://a/1",
            "redis://h/1/secret",
            "redis://h?secret=1",
            "redis://secret secret",
            "redis://[::1",
            "REDIS://h",
        ] {
            let error = Address::read(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{text}: {error}");
        }
    }
}
