//! The dictionary of a message: each entry once, and no entry that nothing refers to.

use super::message::{
    AnyValue, Function, KeyValueAndUnit, Line, Link, Location, Mapping, ProfilesDictionary, Stack,
};
use crate::stacks::{Frame, Numbering, Site, Stacks};

/// The attribute of a call: what runs its code. Key and values are those of OpenTelemetry's semantic conventions.
const FRAME_TYPE: &str = "profile.frame.type";

/// The tables while they are filled. A report has at most 16 MiB, so that every index fits.
pub struct Dictionary {
    texts: Numbering<String>,
    functions: Numbering<Function>,
    locations: Numbering<Location>,
    stacks: Numbering<Stack>,
    attributes: Numbering<KeyValueAndUnit>,
}

impl Dictionary {
    pub fn new() -> Self {
        Dictionary {
            texts: Numbering::from_zero(),
            functions: Numbering::from_zero(),
            locations: Numbering::from_zero(),
            stacks: Numbering::from_zero(),
            attributes: Numbering::from_zero(),
        }
    }

    pub fn text(&mut self, text: &str) -> i32 {
        self.texts.number(text.to_owned()) as i32
    }

    pub fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let key_strindex = self.text(key);
        let value = Some(text_value(value));
        let attribute = KeyValueAndUnit {
            key_strindex,
            value,
        };
        self.attributes.number(attribute) as i32
    }

    /// The stack of a site.
    pub fn stack(&mut self, stacks: &Stacks, site: &Site) -> i32 {
        let frames = site.stack.iter().map(|number| &stacks.frames[*number]);
        let location_indices = frames.map(|frame| self.location(frame)).collect();
        self.stacks.number(Stack { location_indices }) as i32
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
            function_index: self.functions.number(function) as i32,
            line: line.into(),
        };
        let location = Location {
            lines: vec![line],
            attribute_indices,
        };
        self.locations.number(location) as i32
    }

    pub fn finish(self) -> ProfilesDictionary {
        ProfilesDictionary {
            mapping_table: vec![Mapping {}],
            location_table: self.locations.into_values(),
            function_table: self.functions.into_values(),
            // The form of the zero value that readers with ids of a fixed length take, too.
            link_table: vec![Link {
                trace_id: vec![0; 16],
                span_id: vec![0; 8],
            }],
            string_table: self.texts.into_values(),
            attribute_table: self.attributes.into_values(),
            stack_table: self.stacks.into_values(),
        }
    }
}

pub fn text_value(text: &str) -> AnyValue {
    AnyValue {
        string_value: Some(text.to_owned()),
    }
}
