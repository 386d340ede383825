//! Seeded runs of the fuzz check functions that accept any input. The functions document what they guarantee.

use proptest::prelude::*;
use ptc_lang::fuzz;

ptc_lang::counting_allocator!();

/// The number of inputs per check; the fuzzers give it millions.
const CASES: u32 = 400;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn generated_programs_end_properly(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
        fuzz::generated_program(&bytes);
    }

    #[test]
    fn sessions_continue_from_snapshots(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz::snapshot(&bytes);
    }

    #[test]
    fn any_bytes_are_read_or_rejected_as_snapshot(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz::snapshot_bytes(&bytes);
    }

    #[test]
    fn printed_values_are_read_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz::print_read(&bytes);
    }

    #[test]
    fn any_text_runs_as_a_program(text in "[ \\PC()\\[\\]{}#\"':;0-9a-z+*]{0,40}") {
        fuzz::eval(&text);
    }

    #[test]
    fn any_short_token_sequence_runs(text in r#"(?:[(){}\[\] ]|é|\\é|"é"|"日"|日|a|:é|1|inc|str|x-|\("a" 1\)|'|\#|~|@|,|;é\n){1,14}"#) {
        fuzz::eval(&text);
    }

    #[test]
    fn json_and_reader(text in "[ \\PC{}\\[\\]\":,0-9eE.+-]{0,40}") {
        fuzz::json(&text);
        fuzz::reader(&text);
    }
}
