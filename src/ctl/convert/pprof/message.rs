//! The messages of `profile.proto`, package `perftools.profiles`, with the fields that are written here. Names and
//! numbers are those of the public file, github.com/google/pprof/proto/profile.proto.
//!
//! A text is an index into the string table, whose first entry is empty; an id is never 0.

/// A row a field: its number, its kind as prost names it, its name and its type.
macro_rules! messages {
    ($($(#[$doc:meta])* $message:ident { $($tag:tt [$($kind:tt)+] $field:ident: $type:ty,)* })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
            pub struct $message {
                $(#[prost($($kind)+, tag = $tag)] pub $field: $type,)*
            }
        )+
    };
}

messages! {
    Profile {
        1 [message, repeated] sample_type: Vec<ValueType>,
        2 [message, repeated] sample: Vec<Sample>,
        3 [message, repeated] mapping: Vec<Mapping>,
        4 [message, repeated] location: Vec<Location>,
        5 [message, repeated] function: Vec<Function>,
        6 [string, repeated] string_table: Vec<String>,
        9 [int64] time_nanos: i64,
        10 [int64] duration_nanos: i64,
        11 [message, optional] period_type: Option<ValueType>,
        12 [int64] period: i64,
        13 [int64, repeated] comment: Vec<i64>,
        14 [int64] default_sample_type: i64,
    }

    ValueType {
        1 [int64] r#type: i64,
        2 [int64] unit: i64,
    }

    Sample {
        // The innermost first.
        1 [uint64, repeated] location_id: Vec<u64>,
        // A value for each sample type.
        2 [int64, repeated] value: Vec<i64>,
        3 [message, repeated] label: Vec<Label>,
    }

    Label {
        1 [int64] key: i64,
        2 [int64] str: i64,
    }

    Mapping {
        1 [uint64] id: u64,
        5 [int64] filename: i64,
        7 [bool] has_functions: bool,
        8 [bool] has_filenames: bool,
        9 [bool] has_line_numbers: bool,
    }

    Location {
        1 [uint64] id: u64,
        2 [uint64] mapping_id: u64,
        4 [message, repeated] line: Vec<Line>,
    }

    Line {
        1 [uint64] function_id: u64,
        2 [int64] line: i64,
    }

    Function {
        1 [uint64] id: u64,
        2 [int64] name: i64,
        4 [int64] filename: i64,
    }
}
