//! Has relative relocations of the executable packed where the C library reads them so. They are a twentieth of it, and every
//! start walks over them.

use std::process::Command;

/// The first glibc that reads packed ones.
const GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| std::env::var(name).unwrap_or_default();
    // Whoever builds for another machine is not told what it has.
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
