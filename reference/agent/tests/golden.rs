//! Pins the reference card and the planner's instructions: every request pays for them. Only blessing rewrites
//! `golden/`.

use ptc_agent::{CARD, PromptParts, planner_prompt};

ptc_lang::counting_allocator!();

#[test]
fn prompts_match_the_golden_file() {
    let parts = PromptParts {
        prefix: "",
        suffix: "",
        catalog: "CATALOG",
        several_turns: true,
        writes: true,
    };
    let texts = [
        ("reference_card", CARD.to_owned()),
        ("planner_prompt", planner_prompt(parts)),
    ];
    for (name, text) in texts {
        insta::with_settings!({
            snapshot_path => "../../../golden/prompts",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name, text);
        });
    }
}
