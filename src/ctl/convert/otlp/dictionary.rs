//! The dictionary of a message: each entry once, and no entry that nothing refers to.

use super::message::{
    AnyValue, Function, KeyValueAndUnit, Line, Link, Location, Mapping, ProfilesDictionary, Stack,
};
use crate::stacks::{Frame, Numbering, Site, Stacks};
use std::hash::Hash;

/// The attribute of a call: what runs its code. Key and values are those of OpenTelemetry's semantic conventions.
const FRAME_TYPE: &str = "profile.frame.type";

/// A table whose first entry is the zero value.
struct Entries<T>(Numbering<T>);

impl<T: Eq + Hash + Default> Entries<T> {
    fn new() -> Self {
        let mut numbering = Numbering::default();
        numbering.number(T::default());
        Entries(numbering)
    }

    /// A report has at most 16 MiB, so that every index fits.
    fn index(&mut self, entry: T) -> i32 {
        self.0.number(entry) as i32
    }
}

/// The tables while they are filled.
pub struct Dictionary {
    texts: Entries<String>,
    functions: Entries<Function>,
    locations: Entries<Location>,
    stacks: Entries<Stack>,
    attributes: Entries<KeyValueAndUnit>,
}

impl Dictionary {
    pub fn new() -> Self {
        Dictionary {
            texts: Entries::new(),
            functions: Entries::new(),
            locations: Entries::new(),
            stacks: Entries::new(),
            attributes: Entries::new(),
        }
    }

    pub fn text(&mut self, text: &str) -> i32 {
        self.texts.index(text.to_owned())
    }

    pub fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let key_strindex = self.text(key);
        self.attributes.index(KeyValueAndUnit {
            key_strindex,
            value: Some(text_value(value)),
        })
    }

    /// The stack of a site.
    pub fn stack(&mut self, stacks: &Stacks, site: &Site) -> i32 {
        let frames = site.stack.iter().map(|number| &stacks.frames[*number]);
        let location_indices = frames.map(|frame| self.location(frame)).collect();
        self.stacks.index(Stack { location_indices })
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
            function_index: self.functions.index(function),
            line: line.into(),
        };
        self.locations.index(Location {
            lines: vec![line],
            attribute_indices,
        })
    }

    pub fn finish(self) -> ProfilesDictionary {
        ProfilesDictionary {
            mapping_table: vec![Mapping {}],
            location_table: self.locations.0.into_values(),
            function_table: self.functions.0.into_values(),
            // The form of the zero value that readers with ids of a fixed length take, too.
            link_table: vec![Link {
                trace_id: vec![0; 16],
                span_id: vec![0; 8],
            }],
            string_table: self.texts.0.into_values(),
            attribute_table: self.attributes.0.into_values(),
            stack_table: self.stacks.0.into_values(),
        }
    }
}

pub fn text_value(text: &str) -> AnyValue {
    AnyValue {
        string_value: Some(text.to_owned()),
    }
}
