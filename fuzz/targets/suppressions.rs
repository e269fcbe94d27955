#![no_main]

use pyhost_ledger::{self as ledger, Account};
use pyhost_os::bytes;

#[allow(dead_code)]
#[path = "../../src/host/check/leaks/suppressions.rs"]
mod rules;

// The first line is the text that the rules of the others are compared with.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (subject, text) = text.split_once('\n').unwrap_or_default();
    let mut found = rules::Suppressions::default();
    match found.add("file", text) {
        Ok(()) => {
            let call = rules::Call { library: subject, function: subject };
            let facts = rules::Facts { account: Account::Native, size: subject.len(), kind: subject, line: subject, calls: &[call] };
            let _ = (found.compares_functions(), found.matching(&facts));
        }
        Err(reason) => assert!(!reason.contains('\n'), "{reason:?}"),
    }
});
