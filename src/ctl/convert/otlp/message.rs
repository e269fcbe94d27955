//! The messages of OpenTelemetry's profiles, package `opentelemetry.proto.profiles.v1development` of opentelemetry-proto
//! 1.11.0, with the fields that are written here. Names and numbers are those of the public files,
//! github.com/open-telemetry/opentelemetry-proto.
//!
//! An index leads into a table of the dictionary. The first entry of each table is its zero value: index 0 is none.

use super::super::message::messages;

messages! {
    ProfilesData {
        1 [message, repeated] resource_profiles: Vec<ResourceProfiles>,
        2 [message, optional] dictionary: Option<ProfilesDictionary>,
    }

    ProfilesDictionary {
        1 [message, repeated] mapping_table: Vec<Mapping>,
        2 [message, repeated] location_table: Vec<Location>,
        3 [message, repeated] function_table: Vec<Function>,
        4 [message, repeated] link_table: Vec<Link>,
        5 [string, repeated] string_table: Vec<String>,
        6 [message, repeated] attribute_table: Vec<KeyValueAndUnit>,
        7 [message, repeated] stack_table: Vec<Stack>,
    }

    ResourceProfiles {
        1 [message, optional] resource: Option<Resource>,
        2 [message, repeated] scope_profiles: Vec<ScopeProfiles>,
    }

    /// Of package `opentelemetry.proto.resource.v1`.
    Resource {
        1 [message, repeated] attributes: Vec<KeyValue>,
    }

    /// Of package `opentelemetry.proto.common.v1`, as are the next two.
    KeyValue {
        1 [string] key: String,
        2 [message, optional] value: Option<AnyValue>,
    }

    /// A text: the one kind of value that is written here.
    AnyValue {
        1 [string, optional] string_value: Option<String>,
    }

    InstrumentationScope {
        1 [string] name: String,
        2 [string] version: String,
    }

    ScopeProfiles {
        1 [message, optional] scope: Option<InstrumentationScope>,
        2 [message, repeated] profiles: Vec<Profile>,
    }

    Profile {
        1 [message, optional] sample_type: Option<ValueType>,
        2 [message, repeated] samples: Vec<Sample>,
        3 [fixed64] time_unix_nano: u64,
        4 [uint64] duration_nano: u64,
        5 [message, optional] period_type: Option<ValueType>,
        6 [int64] period: i64,
    }

    ValueType {
        1 [int32] type_strindex: i32,
        2 [int32] unit_strindex: i32,
    }

    Sample {
        1 [int32] stack_index: i32,
        2 [int32, repeated] attribute_indices: Vec<i32>,
        // One, of the profile's sample type.
        4 [int64, repeated] values: Vec<i64>,
    }

    /// No mapping is written but the zero value.
    Mapping {}

    /// No link is written but the zero value.
    Link {
        1 [bytes = "vec"] trace_id: Vec<u8>,
        2 [bytes = "vec"] span_id: Vec<u8>,
    }

    Stack {
        // The innermost first.
        1 [int32, repeated] location_indices: Vec<i32>,
    }

    Location {
        3 [message, repeated] lines: Vec<Line>,
        4 [int32, repeated] attribute_indices: Vec<i32>,
    }

    Line {
        1 [int32] function_index: i32,
        2 [int64] line: i64,
    }

    Function {
        1 [int32] name_strindex: i32,
        3 [int32] filename_strindex: i32,
    }

    KeyValueAndUnit {
        1 [int32] key_strindex: i32,
        2 [message, optional] value: Option<AnyValue>,
    }
}
