//! The `ptc-conformance` command. Everything is in the library, so that tests can reach it.

fn main() -> std::process::ExitCode {
    conformance::cli::main()
}
