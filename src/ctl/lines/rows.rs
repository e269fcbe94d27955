//! The rows of a table: the stacks of a view, summed by line, function, file, package, account, stack, thread or type.

use crate::stacks::{Amount, Frame, Site, Stacks, View};
use clap::ValueEnum;
use indexmap::IndexMap;
use pyhost_record::origin::{is_users, package};
use pyhost_record::output::format::NO_CALLS;
use serde_json::{Value, json};
use std::fmt::{self, Display};
use std::{cmp::Reverse, collections::HashMap};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The innermost line of your own code
    Line,
    /// The function of that line
    Function,
    /// The file of that line
    File,
    /// Whose code the innermost call is of
    Package,
    /// The library of the innermost native call, of reports with --lines native
    Library,
    /// An account
    Account,
    /// A whole stack
    Stack,
    /// The thread that allocated
    Thread,
    /// The type of live objects, of a report of the script's end
    Type,
}

impl By {
    /// The name on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The bytes of a row have this in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject<'a> {
    Line {
        file: &'a str,
        line: u32,
        function: &'a str,
    },
    Function {
        file: &'a str,
        function: &'a str,
    },
    /// A file, a package, a library, an account, a thread or a type, by its name.
    Named(&'a str),
    /// What has no name, in words of ours: a name of the same letters is another subject.
    Unnamed(&'static str),
    Stack {
        /// The numbers of its frames.
        stack: &'a [usize],
        /// The innermost call of the user's own code, or the innermost call.
        call: &'a Frame,
    },
}

impl<'a> Subject<'a> {
    const OUTSIDE: Self = Subject::Unnamed(NO_CALLS[0]);

    pub fn of_call(call: &'a Frame) -> Self {
        match &call.place {
            Some((file, line)) => Subject::Line {
                file,
                line: *line,
                function: &call.name,
            },
            None => Subject::OUTSIDE,
        }
    }

    /// Its name in JSON, with its file, line and function.
    pub fn to_json(self) -> Value {
        let mut value = json!({"name": self.to_string()});
        let (Subject::Line { file, function, .. } | Subject::Function { file, function }) = self
        else {
            return value;
        };
        value["file"] = file.into();
        if let Subject::Line { line, .. } = self {
            value["line"] = line.into();
        }
        value["function"] = function.into();
        value
    }

    fn of_site(stacks: &'a Stacks, site: &'a Site, by: By) -> Self {
        let of_library = || stacks.calls_of(site).next()?.library.as_deref();
        let (name, otherwise) = match by {
            By::Account => (Some(site.account.as_str()), ""),
            By::Library => (of_library(), "the interpreter"),
            By::Thread => (
                site.thread.as_deref(),
                "thread that the report does not name",
            ),
            _ => return Subject::of_stack(stacks, site, by),
        };
        name.map_or(Subject::Unnamed(otherwise), Subject::Named)
    }

    fn of_stack(stacks: &'a Stacks, site: &'a Site, by: By) -> Self {
        let Some(call) = users_call(stacks, site) else {
            return Subject::OUTSIDE;
        };
        match (by, Subject::of_call(call)) {
            (By::Function, Subject::Line { file, function, .. }) => {
                Subject::Function { file, function }
            }
            (By::File, Subject::Line { file, .. }) => Subject::Named(file),
            (By::Package, _) => Subject::of_innermost(stacks, site),
            (By::Stack, _) => Subject::Stack {
                stack: &site.stack,
                call,
            },
            (_, line) => line,
        }
    }

    /// Whose code the innermost call is of: a library counts if a package brought it.
    fn of_innermost(stacks: &'a Stacks, site: &'a Site) -> Self {
        let mut calls = stacks.calls_of(site);
        let counts = |call: &&Frame| {
            call.library
                .as_deref()
                .is_none_or(|it| package(it).is_some())
        };
        let innermost = calls.find(counts);
        if let Some(library) = innermost.and_then(|call| call.library.as_deref()) {
            return package(library).map_or(Subject::OUTSIDE, Subject::Named);
        }
        match innermost.and_then(|call| call.place.as_ref()) {
            None => Subject::OUTSIDE,
            Some((file, _)) if is_users(file) => Subject::Unnamed("yours"),
            Some((file, _)) => {
                package(file).map_or(Subject::Unnamed("standard library"), Subject::Named)
            }
        }
    }
}

impl Display for Subject<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Line {
                file,
                line,
                function,
            } => match line {
                0 => write!(out, "{file} in {function}"),
                _ => write!(out, "{file}:{line} in {function}"),
            },
            Subject::Function { file, function } => write!(out, "{function} ({file})"),
            Subject::Named(name) | Subject::Unnamed(name) => out.write_str(name),
            Subject::Stack { call, .. } => Subject::of_call(call).fmt(out),
        }
    }
}

/// The innermost call of the user's own code, or the innermost of Python, or the innermost.
fn users_call<'a>(stacks: &'a Stacks, site: &'a Site) -> Option<&'a Frame> {
    let is_own = |call: &&Frame| call.place.as_ref().is_some_and(|(file, _)| is_users(file));
    let python = || {
        let calls = stacks.calls_of(site);
        calls.filter(|call| call.library.is_none())
    };
    let own = python().find(is_own);
    own.or_else(|| python().next())
        .or_else(|| stacks.calls_of(site).next())
}

#[derive(Debug)]
pub struct Row<'a> {
    pub subject: Subject<'a>,
    pub sum: Amount,
    /// Its sites, those with the most bytes first.
    pub sites: Vec<&'a Site>,
    /// The accounts that have a tenth of the bytes or more, the one with the most first.
    pub accounts: Vec<&'a str>,
}

impl<'a> Row<'a> {
    pub fn account(&self) -> &'a str {
        self.accounts.first().copied().unwrap_or_default()
    }
}

#[derive(Debug)]
pub struct Table<'a> {
    pub stacks: &'a Stacks,
    pub view: View,
    pub by: By,
    pub account: Option<&'a str>,
    /// Those with the most bytes first.
    pub rows: Vec<Row<'a>>,
    /// All bytes of the view, with those that no row has. Of `grown` without what shrank.
    pub total: i64,
    /// The bytes that no row has: of stacks that the report does not list.
    pub left_out: i64,
}

impl<'a> Table<'a> {
    /// Sums a view. Without an account all count that are part of its total.
    pub fn new(stacks: &'a Stacks, view: View, by: By, account: Option<&'a str>) -> Self {
        let counts = |site: &&Site| match account {
            Some(name) => site.account == name,
            None => view.has(&site.account),
        };
        let mut left_out = 0;
        let mut rows: IndexMap<Subject, Row> = IndexMap::new();
        let mut add = |subject, amount: Amount, site| {
            let row = rows.entry(subject).or_insert_with(|| Row {
                subject,
                sum: Amount::default(),
                sites: Vec::new(),
                accounts: Vec::new(),
            });
            row.sum = row.sum.plus(amount).unwrap_or(row.sum);
            row.sites.push(site);
        };
        for site in stacks.changed_in(view).into_iter().filter(counts) {
            let amount = site.amount(view);
            // The sum of a view was checked.
            if !site.is_listed && by != By::Account {
                left_out += amount.bytes;
                continue;
            }
            if by != By::Type {
                add(Subject::of_site(stacks, site, by), amount, site);
                continue;
            }
            let mut rest = amount.minus(Amount::default());
            for (name, of_type) in &site.types {
                rest = rest.minus(*of_type);
                add(Subject::Named(name), *of_type, site);
            }
            if rest.bytes > 0 {
                let unnamed = Subject::Unnamed("no object, or of a type that is not listed");
                add(unnamed, rest, site);
            }
        }
        // A line that replaced its bytes by those of another stack has not grown: rows are summed before those that shrank
        // are left out.
        let rows = rows.into_values().filter(|row| row.sum.bytes > 0);
        let mut rows: Vec<Row> = rows.collect();
        let total = rows.iter().map(|row| row.sum.bytes).sum::<i64>() + left_out.max(0);
        for row in &mut rows {
            row.accounts = accounts_of(&row.sites, view);
        }
        rows.sort_by_key(|row| Reverse(row.sum.bytes));
        Table {
            stacks,
            view,
            by,
            account,
            rows,
            total,
            left_out,
        }
    }

    /// The package that more than half of a row's bytes are by, if the row is of a line that called it.
    pub fn package_of(&self, row: &Row<'a>) -> Option<&'a str> {
        match row.subject {
            Subject::Line { file, .. } if is_users(file) => (),
            _ => return None,
        }
        let mut packages: HashMap<&str, i64> = HashMap::new();
        for site in &row.sites {
            if let Some(package) = self.innermost_package(site) {
                *packages.entry(package).or_default() += site.amount(self.view).bytes;
            }
        }
        let is_most = |bytes: i64| bytes > row.sum.bytes / 2;
        let most = packages.into_iter().find(|(_, bytes)| is_most(*bytes));
        most.map(|(package, _)| package)
    }

    fn innermost_package(&self, site: &Site) -> Option<&'a str> {
        let innermost = self.stacks.calls_of(site).next()?;
        let (place, library) = (innermost.place.as_ref()?, innermost.library.as_ref());
        package(library.unwrap_or(&place.0))
    }

    /// Whether the ages of the bytes are known: not of types.
    pub fn has_ages(&self) -> bool {
        self.view.has_ages() && self.by != By::Type
    }

    pub fn sum_of(rows: &[Row]) -> Amount {
        let plus = |sum: Amount, row: &Row| sum.plus(row.sum).unwrap_or(sum);
        rows.iter().fold(Amount::default(), plus)
    }
}

/// The accounts of a row; of two with as many bytes the first by name.
fn accounts_of<'a>(sites: &[&'a Site], view: View) -> Vec<&'a str> {
    let mut accounts: HashMap<&str, i64> = HashMap::new();
    for site in sites {
        *accounts.entry(&site.account).or_default() += site.amount(view).bytes;
    }
    let mut accounts: Vec<(&str, i64)> = accounts.into_iter().collect();
    accounts.sort_by_key(|(name, bytes)| (Reverse(*bytes), *name));
    let largest = accounts.first().map_or(0, |(_, bytes)| *bytes);
    let all: i64 = accounts.iter().map(|(_, bytes)| *bytes).sum();
    let counts = |(_, bytes): &(&str, i64)| *bytes == largest || *bytes > 0 && *bytes >= all / 10;
    let accounts = accounts.into_iter().filter(counts);
    accounts.map(|(name, _)| name).collect()
}
