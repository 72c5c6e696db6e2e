//! Which types a piece of rustdoc's JSON names, however deep inside: references, generic arguments, `impl Future<Output = ...>`, bounds, function pointers.
//!
//! Only two things are looked for, objects with an `id` (a path to a type or trait) and the generic `Self`, so it does not matter in what the format wraps them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::text::Names;

/// The ids of what is looked for, each with the names of the handles that it stands for.
pub(crate) type Targets = BTreeMap<u64, BTreeSet<String>>;

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) handles: BTreeSet<String>,
    /// The crates of the other types that were named.
    pub(crate) crates: BTreeSet<String>,
}

/// Looks through `value`. `self_is`: the handles that `Self` stands for there.
pub(crate) fn find(
    value: &Value,
    targets: &Targets,
    self_is: &BTreeSet<String>,
    names: &Names<'_>,
) -> Found {
    let mut found = Found::default();
    search(value, targets, self_is, names, &mut found);
    found
}

fn search(
    value: &Value,
    targets: &Targets,
    self_is: &BTreeSet<String>,
    names: &Names<'_>,
    found: &mut Found,
) {
    match value {
        Value::Array(values) => values
            .iter()
            .for_each(|value| search(value, targets, self_is, names, found)),
        Value::Object(fields) => {
            if let Some(id) = fields.get("id").and_then(Value::as_u64) {
                found
                    .handles
                    .extend(targets.get(&id).into_iter().flatten().cloned());
                found.crates.extend(names.foreign_crate(id));
            }
            if fields.get("generic").and_then(Value::as_str) == Some("Self") {
                found.handles.extend(self_is.iter().cloned());
            }
            // What an associated type of our own trait stands for is said elsewhere, maybe by an `impl` that is not public.
            if let Some(projection) = fields.get("qualified_path")
                && projection["trait"]["id"]
                    .as_u64()
                    .is_some_and(|id| names.is_local(id))
            {
                found.handles.insert(names.render(value));
            }
            fields
                .values()
                .for_each(|value| search(value, targets, self_is, names, found));
        }
        _ => {}
    }
}
