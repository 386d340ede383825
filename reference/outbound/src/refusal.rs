//! Describes why a TLS connection failed, and what to change. Knows the errors of TLS; knows no host and no URL.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError, Error as Tls};

/// Describes a TLS failure; `None` for any other error.
pub fn tls_refusal(error: &(dyn Error + 'static)) -> Option<String> {
    causes(error).find_map(|cause| cause.downcast_ref::<Tls>().map(describe_tls_error))
}

/// An error and its causes, the innermost last.
pub fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let io = error.downcast_ref::<io::Error>();
        match io.and_then(io::Error::get_ref) {
            // The source of an error that wraps another is the source of the wrapped one, so the wrapped error is taken
            // instead.
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn describe_tls_error(error: &Tls) -> String {
    match error {
        Tls::InvalidCertificate(problem) => certificate(problem),
        Tls::InvalidMessage(_) => "the server does not answer in TLS: is its URL one of plain http, or the port another's?".into(),
        Tls::PeerIncompatible(_)
        | Tls::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure) => {
            "the server accepts no version or cipher of TLS that is spoken here (TLS 1.2 and 1.3)".into()
        }
        Tls::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a certificate of the client, and none can be given".into()
        }
        Tls::AlertReceived(AlertDescription::UnrecognisedName) => {
            "the server knows no host of the URL's name".into()
        }
        Tls::AlertReceived(alert) => {
            format!("the server ended the TLS handshake with the alert {alert:?}")
        }
        Tls::General(words) => words.clone(),
        _ => "the server breaks the rules of TLS".into(),
    }
}

/// The names in a certificate are not shown: the server chooses them, and how many there are.
fn certificate(problem: &CertificateError) -> String {
    use CertificateError as Problem;
    let wrong = match problem {
        Problem::Expired | Problem::ExpiredContext { .. } => "has expired",
        Problem::NotValidYet | Problem::NotValidYetContext { .. } => {
            "is not valid yet: is this machine's clock right?"
        }
        Problem::NotValidForName | Problem::NotValidForNameContext { .. } => {
            "is for other hosts than the one in the URL"
        }
        Problem::UnknownIssuer => {
            "is signed by none of the CAs that this machine trusts: if its own is to be trusted, name that CA's PEM file in SSL_CERT_FILE"
        }
        Problem::Revoked => "was revoked",
        Problem::BadSignature => "has a wrong signature",
        Problem::InvalidPurpose | Problem::InvalidPurposeContext { .. } => "is not one for servers",
        Problem::BadEncoding => "cannot be read",
        Problem::UnhandledCriticalExtension => "has a critical extension that is not known here",
        // The verifier's own errors are identifiable only by their names.
        Problem::Other(other) => match format!("{other:?}") {
            name if name.contains("CaUsedAsEndEntity") => {
                "is that of a CA, as self-signed ones often are: the server needs one that is no CA's (basicConstraints CA:FALSE)"
            }
            name if name.contains("EkuError") => "is not one for servers",
            _ => "breaks a rule for certificates",
        },
        _ => "is signed in a way that is not accepted here",
    };
    format!("the server's certificate {wrong}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_refusal_names_the_cause() {
        for (error, told) in [
            (CertificateError::Expired, "has expired"),
            (CertificateError::NotValidForName, "other hosts"),
            (CertificateError::UnknownIssuer, "SSL_CERT_FILE"),
        ] {
            let wrapped = io::Error::other(io::Error::other(Tls::InvalidCertificate(error)));
            let words = tls_refusal(&wrapped).unwrap();
            assert!(
                words.starts_with("the server's certificate ") && words.contains(told),
                "{words}"
            );
        }
        let other = io::Error::other("canary");
        assert_eq!(tls_refusal(&other), None);
    }
}
