//! Rules for leaks that are known: what they match is not reported (`--leak-check suppressions=FILE`).
//!
//! A file has a rule a line, and a rule has conditions with spaces between them, all of which must hold. `leak:PATTERN`
//! and the patterns are LeakSanitizer's; they are compared with types and lines of Python, too.

use crate::bytes::{self, Expected};
use crate::ledger::{Account, REPORTED};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Text with `*` for any text, which may lie anywhere in what is matched, unless `^` or `$` binds it to an end: its parts
/// between the `*`, with one at each end that is not bound.
#[derive(Clone, Debug)]
struct Pattern(Vec<String>);

impl Pattern {
    fn new(text: &str) -> Self {
        let inner = text.strip_prefix('^').unwrap_or(text);
        let bare = inner.strip_suffix('$').unwrap_or(inner);
        let [before, after] =
            [inner == text, bare == inner].map(|is_free| if is_free { "*" } else { "" });
        let whole = format!("{before}{bare}{after}");
        Pattern(whole.split('*').map(str::to_owned).collect())
    }

    fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.0.as_slice() else {
            return self.0 == [text];
        };
        let mut rest = text.strip_prefix(first.as_str());
        for part in middle {
            rest = rest.and_then(|rest| Some(rest.split_once(part.as_str())?.1));
        }
        rest.is_some_and(|rest| rest.ends_with(last.as_str()))
    }
}

/// A native call of the stack that has allocated a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// The path of the library, or of the executable.
    pub library: &'a str,
    /// The exported name of the function; empty if it has none.
    pub function: &'a str,
}

/// What is known of a lost block.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub account: Account,
    /// Its usable bytes.
    pub size: usize,
    /// The name of the object's type; empty if it is no object.
    pub kind: &'a str,
    /// `FILE:LINE` of the allocation; empty if that is not known.
    pub line: &'a str,
    /// The native calls of the allocation, innermost first; empty if they are not known.
    pub calls: &'a [Call<'a>],
}

#[derive(Clone, Debug)]
enum Condition {
    Any(Pattern),
    Line(Pattern),
    Type(Pattern),
    Library(Pattern),
    Function(Pattern),
    Account(Account),
    /// From the first number of bytes to the last.
    Size(u64, u64),
}

const CONDITIONS: Expected = Expected(
    "conditions with spaces between them, of leak:, line:, type:, library:, function:, account:, size:",
);
const PATTERN: Expected = Expected("a pattern after the colon");
const ACCOUNT: Expected = Expected("account:NAME of raw, mem, obj, numpy, native");
const SIZE: Expected = Expected("size:BYTES or size:FIRST-LAST, such as size:48K-64K");

impl FromStr for Condition {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let (name, value) = text.split_once(':').ok_or(CONDITIONS)?;
        let pattern = || match value.trim_matches(['^', '$', '*']) {
            "" => Err(PATTERN), // it would match everything
            _ => Ok(Pattern::new(value)),
        };
        match name {
            "leak" => pattern().map(Condition::Any),
            "line" => pattern().map(Condition::Line),
            "type" => pattern().map(Condition::Type),
            "library" => pattern().map(Condition::Library),
            "function" => pattern().map(Condition::Function),
            "account" => {
                let found = REPORTED.iter().find(|account| account.name() == value);
                found.copied().map(Condition::Account).ok_or(ACCOUNT)
            }
            "size" => {
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                match (bytes::parse(first), bytes::parse(last)) {
                    (Some(first), Some(last)) if first <= last => Ok(Condition::Size(first, last)),
                    _ => Err(SIZE),
                }
            }
            _ => Err(CONDITIONS),
        }
    }
}

impl Condition {
    fn holds(&self, facts: &Facts<'_>) -> bool {
        let calls = || facts.calls.iter();
        match self {
            Condition::Any(pattern) => {
                let is_named = |text: &str| pattern.matches(text);
                let is_in = |call: &Call<'_>| is_named(call.library) || is_named(call.function);
                is_named(facts.line) || is_named(facts.kind) || calls().any(is_in)
            }
            Condition::Library(pattern) => calls().any(|call| pattern.matches(call.library)),
            Condition::Function(pattern) => calls().any(|call| pattern.matches(call.function)),
            Condition::Line(pattern) => pattern.matches(facts.line),
            Condition::Type(pattern) => pattern.matches(facts.kind),
            Condition::Account(account) => facts.account == *account,
            Condition::Size(first, last) => (*first..=*last).contains(&(facts.size as u64)),
        }
    }
}

#[derive(Debug)]
pub struct Rule {
    /// As it was written.
    pub text: String,
    /// The file, and the line in it.
    pub place: (String, usize),
    conditions: Vec<Condition>,
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl Rule {
    /// Counts a block that it matches.
    pub fn count(&self, bytes: usize) {
        self.blocks.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// In place of a file's name.
const BUILT_IN_NAME: &str = "built in";

/// Rules that every process has, for what published libraries are known to keep until the process ends.
///
/// numba: llvmlite does not give back what LLVM has made of a compiled function when Python ends. cffi: a block for each C
/// function that is used, as a comment of its source says.
const BUILT_IN: &str =
    "account:native library:/libllvmlite.so$\naccount:mem library:/_cffi_backend.*.so$";

#[derive(Debug, Default)]
pub struct Suppressions {
    rules: Vec<Rule>,
    /// Whether rules that matched nothing are named.
    pub names_unused: bool,
}

impl Suppressions {
    /// Adds the built-in ones, behind those of files.
    #[must_use]
    pub fn with_built_in(mut self) -> Self {
        let added = self.add(BUILT_IN_NAME, BUILT_IN);
        debug_assert!(added.is_ok());
        self
    }

    /// Adds the rules of a file. An error names the line of a wrong rule, and the reason.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), String> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let conditions: Result<Vec<Condition>, Expected> =
                line.split_whitespace().map(str::parse).collect();
            let conditions = conditions.map_err(|expected| {
                format!("line {}: bad rule '{line}'; expected {expected}", index + 1)
            })?;
            self.rules.push(Rule {
                text: line.to_owned(),
                place: (file.to_owned(), index + 1),
                conditions,
                blocks: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
            });
        }
        Ok(())
    }

    /// Whether a rule looks at functions, whose names take time to find.
    pub fn compares_functions(&self) -> bool {
        let mut conditions = self.rules.iter().flat_map(|rule| &rule.conditions);
        conditions.any(|condition| matches!(condition, Condition::Any(_) | Condition::Function(_)))
    }

    /// The first rule that matches a block.
    pub fn matching(&self, facts: &Facts<'_>) -> Option<&Rule> {
        let holds = |rule: &Rule| rule.conditions.iter().all(|it| it.holds(facts));
        self.rules.iter().find(|rule| holds(rule))
    }

    /// The rules that have matched something.
    pub fn used(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.blocks() > 0)
    }

    /// The rules that have matched nothing, if they are to be named.
    pub fn unused(&self) -> impl Iterator<Item = &Rule> {
        let is_users = |rule: &&Rule| rule.place.0 != BUILT_IN_NAME;
        let unused = self.rules.iter().filter(|rule| rule.blocks() == 0);
        unused.filter(is_users).filter(|_| self.names_unused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_lies_anywhere_unless_it_is_bound() {
        for (pattern, text, matches) in [
            ("blas", "libopenblas.so.0", true),
            ("^blas", "libopenblas.so.0", false),
            ("^lib*blas", "libopenblas.so.0", true),
            ("^lib*blas$", "libopenblas.so.0", false),
            ("^lib*blas*0$", "libopenblas.so.0", true),
            ("^lib*blas*1$", "libopenblas.so.0", false),
            ("so.0$", "libopenblas.so.0", true),
            ("so$", "libopenblas.so.0", false),
            ("^abc$", "abc", true),
            ("^abc$", "abcabc", false),
            ("^ab*bc$", "abc", false),
            ("a*b*c", "xaxxbxxcx", true),
            ("a*b*c", "xaxxcxxbx", false),
            ("ab*", "xab", true),
            ("*ab$", "abxab", true),
            ("x", "", false),
        ] {
            let found = Pattern::new(pattern).matches(text);
            assert_eq!(found, matches, "{pattern} {text}");
        }
    }

    fn rules(text: &str) -> Result<Suppressions, String> {
        let mut rules = Suppressions::default();
        rules.add("known.supp", text).map(|()| rules)
    }

    #[test]
    fn all_conditions_of_a_rule_must_hold_and_the_first_rule_counts() {
        let rules = rules(
            "# known\n\nleak:pyarrow\n  type:^list$ line:cache.py:12$\naccount:native size:4K-48K\nsize:80",
        )
        .unwrap();
        let facts = |account, size, kind, line| Facts {
            account,
            size,
            kind,
            line,
            calls: &[],
        };
        for (facts, line) in [
            (facts(Account::Obj, 64, "pyarrow.lib.Buffer", ""), Some(3)),
            (facts(Account::Raw, 64, "", "/x/pyarrow/io.py:3"), Some(3)),
            (facts(Account::Obj, 64, "list", "/x/cache.py:12"), Some(4)),
            (facts(Account::Obj, 64, "list", "/x/cache.py:123"), None),
            (facts(Account::Obj, 64, "list", ""), None),
            (facts(Account::Native, 48 << 10, "", ""), Some(5)),
            (facts(Account::Native, 49 << 10, "", ""), None),
            (facts(Account::Mem, 48 << 10, "", ""), None),
            (facts(Account::Mem, 80, "", ""), Some(6)),
        ] {
            let rule = rules.matching(&facts);
            assert_eq!(rule.map(|rule| rule.place.1), line, "{facts:?}");
            if let Some(rule) = rule {
                rule.count(facts.size);
            }
        }
        let used = rules
            .used()
            .map(|rule| (rule.place.1, rule.blocks(), rule.bytes()));
        assert!(used.eq([(3, 2, 128), (4, 1, 64), (5, 1, 48 << 10), (6, 1, 80)]));
    }

    #[test]
    fn a_call_of_any_depth_matches_by_its_library_or_its_function() {
        let calls = [("/lib/libc.so.6", "calloc"), ("/x/libllvmlite.so", "")];
        let calls = calls.map(|(library, function)| Call { library, function });
        let facts = Facts {
            account: Account::Native,
            size: 64,
            kind: "",
            line: "",
            calls: &calls,
        };
        for (rule, matches) in [
            ("library:llvmlite", true),
            ("library:^libllvmlite", false),
            ("function:^calloc$ library:libllvm*.so$", true),
            ("function:^call$", false),
            ("function:calloc account:obj", false),
            ("leak:calloc", true),
            ("leak:/x/lib", true),
            ("leak:malloc", false),
        ] {
            let found = rules(rule).unwrap().matching(&facts).is_some();
            assert_eq!(found, matches, "{rule}");
        }
        let built_in = Suppressions::default().with_built_in();
        let (library, function) = ("/x/_cffi_backend.cpython-313-x86_64-linux-gnu.so", "");
        let of_cffi = [Call { library, function }];
        for (account, calls, matches) in [
            (Account::Native, &calls[..], true),
            (Account::Native, &calls[..1], false),
            (Account::Mem, &of_cffi, true),
            (Account::Obj, &of_cffi, false),
        ] {
            let facts = Facts {
                account,
                calls,
                ..facts
            };
            assert_eq!(built_in.matching(&facts).is_some(), matches, "{facts:?}");
        }
    }

    #[test]
    fn a_wrong_rule_is_named_with_its_line() {
        for (rule, expected) in [
            ("leek:b", CONDITIONS),
            ("openblas", CONDITIONS),
            ("leak:*", PATTERN),
            ("type:", PATTERN),
            ("account:heap", ACCOUNT),
            ("size:9-8", SIZE),
        ] {
            let line = format!("line 2: bad rule '{rule}'; expected {expected}");
            assert_eq!(rules(&format!("leak:a\n{rule}")).err(), Some(line));
        }
    }
}
