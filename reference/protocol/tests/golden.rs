//! Pins the tool descriptions byte for byte: clients and prompts depend on them. Only blessing rewrites `golden/`.

use ptc_protocol::PROFILES;

ptc_lang::counting_allocator!();

#[test]
fn descriptions_match_the_golden_file() {
    for (_, name, text) in PROFILES {
        insta::with_settings!({
            snapshot_path => "../../../golden/descriptions",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(*name, text);
        });
    }
}
