//! The help of an option of pyhost, in its parts: a line, a paragraph, and the values and keys that it lists.

/// The parts of a help.
pub struct Parts {
    pub line: String,
    pub paragraph: String,
    pub values: Vec<Value>,
}

/// A value or a key, such as `json` and `file=PATH`.
pub struct Value {
    pub form: String,
    pub help: String,
}

impl Parts {
    /// Lines of the list begin with two spaces; those that go on begin with more.
    pub fn of(help: &str) -> Self {
        let mut lines = help.lines();
        let line = lines.next().unwrap_or_default().to_owned();
        let mut parts = Parts {
            line,
            paragraph: String::new(),
            values: Vec::new(),
        };
        for line in lines {
            let Some(listed) = line.strip_prefix("  ") else {
                join(&mut parts.paragraph, line);
                continue;
            };
            match (listed.split_once("  "), parts.values.last_mut()) {
                (Some((form, help)), _) if !form.is_empty() => {
                    let (form, help) = (form.to_owned(), help.trim().to_owned());
                    parts.values.push(Value { form, help });
                }
                (_, last) => join(&mut last.expect("a value").help, listed),
            }
        }
        parts
    }
}

impl Value {
    /// What a shell completes of it: `json`, `file=`, `file:`; nothing of a form such as `INTERVAL`.
    pub fn word(&self) -> Option<&str> {
        let end = self
            .form
            .find(['=', ':'])
            .map_or(self.form.len(), |at| at + 1);
        let word = &self.form[..end];
        (!word.starts_with(|first: char| first.is_uppercase())).then_some(word)
    }

    /// Whether its own value is a file.
    pub fn is_file(&self) -> bool {
        self.form.ends_with("PATH") || self.form.ends_with("FILE")
    }
}

fn join(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(line.trim());
}
