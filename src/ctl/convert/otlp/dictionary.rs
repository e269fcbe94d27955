//! The dictionary of a message: each entry once, and no entry that nothing refers to.

use super::message::{
    AnyValue, Function, KeyValueAndUnit, Line, Link, Location, Mapping, ProfilesDictionary, Stack,
};
use crate::stacks::{Frame, Site, Stacks};
use indexmap::IndexSet;

/// The attribute of a call: what runs its code. Key and values are those of OpenTelemetry's semantic conventions.
const FRAME_TYPE: &str = "profile.frame.type";

/// The tables while they are filled. A report has at most 16 MiB, so that every index fits.
pub struct Dictionary {
    texts: IndexSet<String>,
    functions: IndexSet<Function>,
    locations: IndexSet<Location>,
    stacks: IndexSet<Stack>,
    attributes: IndexSet<KeyValueAndUnit>,
}

impl Dictionary {
    pub fn new() -> Self {
        Dictionary {
            texts: IndexSet::from([String::new()]),
            functions: IndexSet::from([Function::default()]),
            locations: IndexSet::from([Location::default()]),
            stacks: IndexSet::from([Stack::default()]),
            attributes: IndexSet::from([KeyValueAndUnit::default()]),
        }
    }

    pub fn text(&mut self, text: &str) -> i32 {
        self.texts.insert_full(text.to_owned()).0 as i32
    }

    pub fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let key_strindex = self.text(key);
        let value = Some(text_value(value));
        let attribute = KeyValueAndUnit {
            key_strindex,
            value,
        };
        self.attributes.insert_full(attribute).0 as i32
    }

    pub fn stack(&mut self, stacks: &Stacks, site: &Site) -> i32 {
        let frames = site.stack.iter().map(|number| &stacks.frames[*number]);
        let location_indices = frames.map(|frame| self.location(frame)).collect();
        self.stacks.insert_full(Stack { location_indices }).0 as i32
    }

    fn location(&mut self, frame: &Frame) -> i32 {
        let (file, line, attribute_indices) = match &frame.place {
            Some((file, line)) => {
                let kind = match frame.library {
                    Some(_) => "native",
                    None => "cpython",
                };
                (file.as_str(), *line, vec![self.attribute(FRAME_TYPE, kind)])
            }
            None => ("", 0, Vec::new()),
        };
        let function = Function {
            name_strindex: self.text(&frame.name),
            filename_strindex: self.text(file),
        };
        let line = Line {
            function_index: self.functions.insert_full(function).0 as i32,
            line: line.into(),
        };
        let location = Location {
            lines: vec![line],
            attribute_indices,
        };
        self.locations.insert_full(location).0 as i32
    }

    pub fn finish(self) -> ProfilesDictionary {
        ProfilesDictionary {
            mapping_table: vec![Mapping {}],
            location_table: self.locations.into_iter().collect(),
            function_table: self.functions.into_iter().collect(),
            // The form of the zero value that readers with ids of a fixed length take, too.
            link_table: vec![Link {
                trace_id: vec![0; 16],
                span_id: vec![0; 8],
            }],
            string_table: self.texts.into_iter().collect(),
            attribute_table: self.attributes.into_iter().collect(),
            stack_table: self.stacks.into_iter().collect(),
        }
    }
}

pub fn text_value(text: &str) -> AnyValue {
    AnyValue {
        string_value: Some(text.to_owned()),
    }
}
