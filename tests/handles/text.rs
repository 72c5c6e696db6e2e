//! Names and types as short text, so that two items never look the same in the list.

use std::collections::BTreeMap;

use serde_json::Value;

/// What the ids in rustdoc's JSON stand for.
pub(crate) struct Names<'a> {
    paths: &'a Value,
    crates: &'a Value,
    /// The shortest public path of each local item.
    public: BTreeMap<u64, String>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(json: &'a Value, public: BTreeMap<u64, String>) -> Self {
        Self {
            paths: &json["paths"],
            crates: &json["external_crates"],
            public,
        }
    }

    pub(crate) fn public(&self, id: u64) -> Option<&str> {
        self.public.get(&id).map(String::as_str)
    }

    fn crate_id(&self, id: u64) -> Option<u64> {
        self.paths[id.to_string()]["crate_id"].as_u64()
    }

    pub(crate) fn is_local(&self, id: u64) -> bool {
        // A local item that rustdoc has left out of its paths is a private one.
        self.crate_id(id).unwrap_or(0) == 0
    }

    pub(crate) fn foreign_crate(&self, id: u64) -> Option<String> {
        let id = self.crate_id(id).filter(|id| *id != 0)?;
        Some(
            self.crates[id.to_string()]["name"]
                .as_str()
                .unwrap_or("?")
                .to_owned(),
        )
    }

    /// A type or a path, without the modules that it is in. What is rare is given as it is.
    pub(crate) fn render(&self, value: &Value) -> String {
        let Some((kind, inner)) = value.as_object().and_then(|fields| fields.iter().next()) else {
            return value.as_str().unwrap_or("_").to_owned();
        };
        let list = |values: &Value| {
            let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
            values
                .iter()
                .map(|value| self.render(value))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match kind.as_str() {
            "resolved_path" => self.render_path(inner),
            "generic" | "primitive" | "lifetime" => inner.as_str().unwrap_or("_").to_owned(),
            "type" => self.render(inner),
            "borrowed_ref" if inner["is_mutable"] == true => {
                format!("&mut {}", self.render(&inner["type"]))
            }
            "borrowed_ref" => format!("&{}", self.render(&inner["type"])),
            "tuple" => format!("({})", list(inner)),
            "slice" => format!("[{}]", self.render(inner)),
            "qualified_path" => {
                let (of, of_trait) = (
                    self.render(&inner["self_type"]),
                    self.render_path(&inner["trait"]),
                );
                let name = inner["name"].as_str().unwrap_or("_");
                if of_trait.is_empty() {
                    format!("{of}::{name}")
                } else {
                    format!("<{of} as {of_trait}>::{name}")
                }
            }
            _ => value.to_string(),
        }
    }

    /// `{"path", "id", "args"}`, the form of traits and of types.
    pub(crate) fn render_path(&self, path: &Value) -> String {
        let name = path["path"].as_str().unwrap_or("_");
        let name = name.rsplit("::").next().unwrap_or(name);
        let arguments = &path["args"]["angle_bracketed"];
        let mut parts: Vec<String> = Vec::new();
        parts.extend(
            arguments["args"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|value| self.render(value)),
        );
        parts.extend(
            arguments["constraints"]
                .as_array()
                .into_iter()
                .flatten()
                .map(Value::to_string),
        );
        if parts.is_empty() {
            name.to_owned()
        } else {
            format!("{name}<{}>", parts.join(", "))
        }
    }
}
