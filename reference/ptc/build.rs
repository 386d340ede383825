//! Packs the executable's relative relocations where the C library supports that. They are a twentieth of the file, and every
//! start processes them.

use std::process::Command;

/// The first glibc version that supports packed relocations.
const GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| std::env::var(name).unwrap_or_default();
    // When building for another machine, its C library is unknown.
    let is_here = variable("HOST") == variable("TARGET");
    if is_here
        && variable("CARGO_CFG_TARGET_ENV") == "gnu"
        && glibc().is_some_and(|version| version >= GLIBC)
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library, from `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let found = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(found.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
