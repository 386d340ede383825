//! The `ptc-conformance` command. Everything is in the library, where tests can call it.

fn main() -> std::process::ExitCode {
    conformance::cli::main()
}
