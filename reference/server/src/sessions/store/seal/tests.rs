//! Sealed content opens only in its place and with its key.

use super::*;

fn sealed_with(text: &[u8]) -> Result<Seal, KeyFileFault> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Seal::from_file(file.path().to_str().unwrap())
}

#[test]
fn sealed_content_opens_only_with_key_and_context() {
    let (one, other) = (
        sealed_with(&[b'a'; 64]).unwrap(),
        sealed_with(format!("{}\n", "b".repeat(64)).as_bytes()).unwrap(),
    );
    let sealed = one.seal(b"words", "here").unwrap();
    assert_eq!(one.open(&sealed, "here").unwrap(), b"words");
    assert!(!sealed.windows(5).any(|window| window == b"words"));
    assert_ne!(sealed, one.seal(b"words", "here").unwrap());
    assert!(one.open(&sealed, "there").is_err());
    assert!(other.open(&sealed, "here").is_err());
    assert!(Seal::none().open(&sealed, "here").is_err());
    let clear = Seal::none().seal(b"words", "here").unwrap();
    assert!(one.open(&clear, "here").is_err());
    assert_eq!(Seal::none().open(&clear, "here").unwrap(), b"words");
    assert_eq!(
        Seal::none().open(&clear, "there"),
        Err(UnsealError::Damaged),
        "it belongs elsewhere"
    );
    for at in 1..clear.len() {
        let mut changed = clear.clone();
        changed[at] ^= 1;
        assert!(Seal::none().open(&changed, "here").is_err(), "byte {at}");
        assert!(
            Seal::none().open(&clear[..at], "here").is_err(),
            "first {at}"
        );
    }
    // Content from before checksums were introduced.
    assert_eq!(Seal::none().open(b"\0words", "here").unwrap(), b"words");
    assert_eq!(Seal::none().open(b"", "here"), Err(UnsealError::Empty));
    assert_eq!(one.open(b"words", "here"), Err(UnsealError::Foreign));
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(one.open(&changed, "here").is_err(), "byte {at}");
        assert!(one.open(&sealed[..at], "here").is_err(), "first {at}");
    }
}

#[test]
fn first_key_seals_and_every_key_opens() {
    let (a, b) = ("a".repeat(64), "b".repeat(64));
    let sealed_with = |text: String| sealed_with(text.as_bytes()).unwrap();
    let (old, both, new) = (
        sealed_with(a.clone()),
        sealed_with(format!("\n{b}\r\n\n {a}\n")),
        sealed_with(b),
    );
    let by_old = old.seal(b"words", "here").unwrap();
    let by_both = both.seal(b"words", "here").unwrap();
    assert_eq!(both.open(&by_old, "here").unwrap(), b"words");
    assert_eq!(new.open(&by_both, "here").unwrap(), b"words");
    assert!(old.open(&by_both, "here").is_err() && both.open(&by_old, "there").is_err());
    assert!(both.is_newest(&by_both, "here") && !both.is_newest(&by_old, "here"));
    let clear = Seal::none().seal(b"words", "here").unwrap();
    assert!(both.open(&clear, "here").is_err() && Seal::none().is_newest(&clear, "here"));
}

#[test]
fn keys_must_have_32_bytes() {
    assert!(sealed_with(&[7; 32]).is_ok());
    assert!(sealed_with("a".repeat(64).repeat(2).as_bytes()).is_err());
    assert!(sealed_with(format!("{}\n", "a".repeat(64)).repeat(9).as_bytes()).is_err());
    assert!(sealed_with(format!("{}\n{}", "a".repeat(64), "a".repeat(63)).as_bytes()).is_err());
    for wrong in [&[7; 31][..], b"", b"short", &[b'g'; 64]] {
        assert!(matches!(
            sealed_with(wrong),
            Err(KeyFileFault::NoKey { .. })
        ));
    }
    let unread = Seal::from_file("/nowhere/key");
    assert!(unread.is_err_and(|error| error.to_string().contains("/nowhere/key")));
}
