//! The redactor against a slow model. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<String>, String, u8)| {
    let (secrets, text, cut) = input;
    let secrets: Vec<&str> = secrets.iter().map(String::as_str).take(4).collect();
    // A text that holds the secrets, too.
    let told = format!("{text}{}{text}", secrets.concat());
    ptc_secrets::fuzz::redactor(&secrets, &told, usize::from(cut));
});
