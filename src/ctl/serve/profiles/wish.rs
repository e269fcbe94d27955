//! The values of a request for a profile, with the names and the meaning that Go's `net/http/pprof` gives them.

use crate::serve::response::{BAD_REQUEST, Response};
use crate::{serve::request::value_of, stacks::View};

/// The longest time of a change, in seconds.
const LONGEST: u32 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Live bytes first.
    Heap,
    /// The same, all allocated bytes first.
    Allocs,
}

pyhost_os::named!(Kind: "heap" Heap, "allocs" Allocs);

impl Kind {
    /// The view that readers show first.
    pub fn view(self) -> View {
        match self {
            Kind::Heap => View::Live,
            Kind::Allocs => View::Allocated,
        }
    }
}

pub struct Wish {
    pub kind: Kind,
    /// Whether the client asks for a collection first.
    gc: bool,
    /// Whether a table is wanted, for people.
    pub is_text: bool,
    /// The change in so many seconds is wanted.
    pub seconds: Option<u32>,
}

impl Wish {
    pub fn of_query(kind: Kind, query: &str) -> Result<Self, Response> {
        let bad = |name: &str, value: &str, expected: &str| {
            let text = format!("{name}: bad value '{value}'; expected {expected}");
            Response::no_profile(BAD_REQUEST, &text)
        };
        let number = |name: &str, expected: &str| {
            let value = value_of(query, name);
            let number = value.map(|it| it.parse::<u32>().map_err(|_| bad(name, &it, expected)));
            number.transpose()
        };
        let gc = number("gc", "0 or 1")?;
        let debug = number("debug", "0 or 1")?;
        let times = format!("a number of seconds from 1 to {LONGEST}");
        let seconds = number("seconds", &times)?;
        let is_text = debug.is_some_and(|debug| debug > 0);
        if let Some(other) = seconds.filter(|seconds| !(1..=LONGEST).contains(seconds)) {
            return Err(bad("seconds", &other.to_string(), &times));
        }
        if is_text && seconds.is_some() {
            let text = "debug and seconds exclude each other; expected one of them";
            return Err(Response::no_profile(BAD_REQUEST, text));
        }
        Ok(Wish {
            kind,
            gc: gc.is_some_and(|gc| gc > 0),
            is_text,
            seconds,
        })
    }

    /// The comment that a profile has, beside the usual ones.
    pub fn remark(&self) -> Option<String> {
        let change = |seconds| format!("the change in {seconds} s");
        let gc = "gc=1: nothing was collected, the process is not asked".to_owned();
        let change = self.seconds.map(change).into_iter();
        let remarks: Vec<String> = change.chain(self.gc.then_some(gc)).collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}
