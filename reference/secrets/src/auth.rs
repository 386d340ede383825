//! Auth emitters: turn a credential binding into a request header. The bytes go into sensitive header values and nowhere else.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::redactor::{BLOCK_BYTES_MIN, Redactor, RedactorBuilder};
use crate::secret::{PASSWORD_BYTES_MIN, Secret};
use crate::source::Credentials;

/// Header names that a `custom_header` emitter may not set: `Authorization` has its own schemes, the rest belong to the client.
pub const RESERVED_AUTH_HEADERS: &[&str] = &[
    "authorization",
    "mcp-protocol-version",
    "mcp-session-id",
    "user-agent",
];

/// How a secret becomes a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheme {
    /// `Authorization: Bearer VALUE`.
    Bearer,
    /// `Authorization: Basic base64(user:pass)`; the value is `user:pass` or `{"user":…,"pass":…}`.
    Basic,
    /// `NAME: VALUE`.
    CustomHeader(HeaderName),
}

/// One entry of an `auth` list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emitter {
    pub scheme: Scheme,
    /// Name of the credential binding.
    pub binding: String,
}

/// Why an emitter can't produce its header. Never quotes a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthFault {
    /// The binding is not defined.
    #[error("unknown credential binding {0}")]
    UnknownBinding(String),
    /// A basic value that is neither JSON nor `user:pass` with a non-empty user.
    #[error("basic credential must be user:pass")]
    BasicShape,
    /// A basic value that is JSON without string `user` and `pass`.
    #[error("basic credential JSON must contain user and pass")]
    BasicJson,
    /// A basic value whose password can be guessed.
    #[error(
        "the password of credential {0} is shorter than {PASSWORD_BYTES_MIN} bytes, so that a program could guess it; use a \
         longer one, or set \"allow_short\": true in the credential's entry"
    )]
    ShortPassword(String),
    /// A value with characters that a header can't carry.
    #[error("credential for header \"{0}\" contains characters that a header cannot carry")]
    HeaderBytes(String),
}

/// Headers ready to send. Opaque: they can only be added to a request.
#[derive(Clone, Default)]
pub struct AuthHeaders {
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl AuthHeaders {
    /// Builds the headers of an `auth` list, in order, and registers the secrets that a basic value contains.
    pub fn emit(
        emitters: &[Emitter],
        credentials: &Credentials,
        scrub: &mut RedactorBuilder,
    ) -> Result<Self, (usize, AuthFault)> {
        let mut made = Self::default();
        for (index, emitter) in emitters.iter().enumerate() {
            made.push(emitter, credentials, scrub)
                .map_err(|fault| (index, fault))?;
        }
        Ok(made)
    }

    /// One `Authorization: Bearer` header, for a client with its own secret (an LLM provider).
    pub fn bearer(secret: &Secret) -> Result<Self, AuthFault> {
        let text = Zeroizing::new(format!("Bearer {}", secret.expose()));
        Ok(Self {
            headers: vec![(AUTHORIZATION, sensitive(&AUTHORIZATION, &text)?)],
        })
    }

    /// One header with the bare secret as its value.
    pub fn custom(name: HeaderName, secret: &Secret) -> Result<Self, AuthFault> {
        let value = sensitive(&name, secret.expose())?;
        Ok(Self {
            headers: vec![(name, value)],
        })
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// A redactor for responses of the server that receives these headers.
    pub fn redactor(&self) -> Redactor {
        let mut builder = Redactor::builder();
        for (_, value) in &self.headers {
            let text = value.to_str().unwrap_or_default();
            let bare = text.strip_prefix("Bearer ").unwrap_or(text);
            builder.add(&Secret::new(bare.to_owned()));
        }
        builder.build()
    }

    /// Adds the headers to a request. The values are marked sensitive: they print as `Sensitive` and are not indexed.
    pub fn apply(&self, request: &mut HeaderMap) {
        for (name, value) in &self.headers {
            request.append(name, value.clone());
        }
    }

    fn push(
        &mut self,
        emitter: &Emitter,
        credentials: &Credentials,
        scrub: &mut RedactorBuilder,
    ) -> Result<(), AuthFault> {
        let secret = credentials
            .get(&emitter.binding)
            .ok_or_else(|| AuthFault::UnknownBinding(emitter.binding.clone()))?;
        let one = match &emitter.scheme {
            Scheme::Bearer => Self::bearer(secret)?,
            Scheme::CustomHeader(name) => Self::custom(name.clone(), secret)?,
            Scheme::Basic => {
                let (pair, password) = basic_pair(secret.expose())?;
                let short = !password.is_empty() && password.byte_len() < PASSWORD_BYTES_MIN;
                if short && !credentials.allows_short(&emitter.binding) {
                    return Err(AuthFault::ShortPassword(emitter.binding.clone()));
                }
                scrub.add(&password).add(&pair);
                register_header(&pair, scrub);
                Self::basic(&pair)?
            }
        };
        self.headers.extend(one.headers);
        Ok(())
    }

    fn basic(pair: &Secret) -> Result<Self, AuthFault> {
        let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.expose())));
        Ok(Self {
            headers: vec![(AUTHORIZATION, sensitive(&AUTHORIZATION, &text)?)],
        })
    }
}

impl fmt::Debug for AuthHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.headers.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Registers the pair and password of each binding that nothing `uses`, as if it were a basic credential. The purpose of such a
/// binding is unknown, so a guessable password in it is no mistake and is left out.
pub(crate) fn register_pairs(
    credentials: &Credentials,
    uses: &dyn Fn(&str) -> bool,
    scrub: &mut RedactorBuilder,
) {
    for name in credentials.names().filter(|name| !uses(name)) {
        let pair = credentials
            .get(name)
            .map(|secret| basic_pair(secret.expose()));
        let Some(Ok((pair, password))) = pair else {
            continue;
        };
        scrub.add(&pair);
        register_header(&pair, scrub);
        if password.byte_len() >= PASSWORD_BYTES_MIN || credentials.allows_short(name) {
            scrub.add(&password);
        }
    }
}

/// Registers the secrets in an address with a login, such as that of a proxy: `http://user:password@host`. Short passwords are not
/// refused there, so one that could be guessed, or whose scrubbing would mangle ordinary text, is left out.
pub fn register_login(address: &str, scrub: &mut RedactorBuilder) {
    let behind = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = behind.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((login, _)) = authority.rsplit_once('@') else {
        return;
    };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    // Invalid percent-encoding stays as it is.
    let decoded = |part| percent_decode_str(part).decode_utf8_lossy().into_owned();
    let (user, password) = (decoded(user), decoded(password));
    let pair = Secret::new(format!("{user}:{password}"));
    let password = Secret::new(password);
    // Without a password the user name is a token.
    if password.is_empty() {
        let token = Secret::new(user);
        if !token.is_short() {
            scrub.add(&token).add(&pair);
        }
    } else if password.byte_len() >= PASSWORD_BYTES_MIN {
        scrub.add(&password).add(&pair);
    }
}

/// Registers the base64 header value of a pair that is too short to be searched for in blocks.
fn register_header(pair: &Secret, scrub: &mut RedactorBuilder) {
    if pair.byte_len() < BLOCK_BYTES_MIN {
        let text = STANDARD.encode(pair.expose());
        scrub.add(&Secret::new(text.trim_end_matches('=').to_owned()));
        scrub.add(&Secret::new(text));
    }
}

/// `user:pass` and the password alone.
fn basic_pair(value: &str) -> Result<(Secret, Secret), AuthFault> {
    if let Ok(json) = serde_json::from_str::<Value>(value) {
        let field = |key| json.get(key).and_then(Value::as_str);
        let (Some(user), Some(pass)) = (field("user"), field("pass")) else {
            return Err(AuthFault::BasicJson);
        };
        if user.is_empty() || user.contains(':') {
            return Err(AuthFault::BasicShape);
        }
        return Ok((
            Secret::new(format!("{user}:{pass}")),
            Secret::new(pass.to_owned()),
        ));
    }
    match value.split_once(':') {
        Some((user, pass)) if !user.is_empty() => {
            Ok((Secret::new(value.to_owned()), Secret::new(pass.to_owned())))
        }
        _ => Err(AuthFault::BasicShape),
    }
}

fn sensitive(name: &HeaderName, text: &str) -> Result<HeaderValue, AuthFault> {
    let printable = text.bytes().all(|b| (0x20..0x7f).contains(&b));
    let value = HeaderValue::from_str(text).ok().filter(|_| printable);
    let mut value = value.ok_or_else(|| AuthFault::HeaderBytes(name.as_str().to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
