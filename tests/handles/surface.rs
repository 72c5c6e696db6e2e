//! The public API of a crate, as far as it concerns handles: a walk over rustdoc's JSON, from the root module along what is public.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::mentions::{Targets, find};
use super::text::Names;

/// The formats that this walk was tried on: those of Rust 1.89 (53), 1.95 and the nightly 1.97 (57).
const KNOWN_FORMATS: std::ops::RangeInclusive<u64> = 53..=57;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Surface {
    /// `fn PATH gives HANDLE` and the like.
    pub(crate) ways: BTreeSet<String>,
    /// The types that have private fields.
    pub(crate) opaque: BTreeSet<String>,
    /// Crate and item, where a type or trait of another crate is named.
    pub(crate) foreign: BTreeSet<(String, String)>,
    pub(crate) functions: usize,
    /// The names of the async functions.
    pub(crate) futures: BTreeSet<String>,
    /// The names of the structs, enums and unions.
    pub(crate) types: BTreeSet<String>,
}

impl Surface {
    /// `handles`: the public paths of the types that are looked for.
    pub(crate) fn of(json: &Value, handles: &[&str]) -> Result<Self, String> {
        let version = json["format_version"].as_u64().unwrap_or(0);
        if !KNOWN_FORMATS.contains(&version) {
            return Err(format!(
                "rustdoc's JSON has format version {version}, and this test knows {KNOWN_FORMATS:?}: read rustdoc-types' changes since, see that the fixture \
                 still passes, and widen KNOWN_FORMATS in tests/handles/surface.rs"
            ));
        }
        let public = public_paths(json)?;
        let mut targets = Targets::new();
        for handle in handles {
            let Some((id, _)) = public.iter().find(|(_, path)| path == handle) else {
                return Err(format!(
                    "there is no public {handle}, which the list calls a handle"
                ));
            };
            let name = handle.rsplit("::").next().unwrap_or(handle);
            targets.insert(*id, BTreeSet::from([name.to_owned()]));
        }
        let names = Names::new(json, public.clone());
        add_aliases(json, &mut targets, &names);
        let mut walk = Walk {
            json,
            names,
            targets,
            surface: Self::default(),
        };
        for (id, path) in &public {
            walk.item(*id, path)?;
        }
        walk.impls()?;
        Ok(walk.surface)
    }
}

fn item(json: &Value, id: u64) -> Option<&Value> {
    json["index"].get(id.to_string())
}

fn inner(item: &Value) -> Result<(&str, &Value), String> {
    item["inner"]
        .as_object()
        .and_then(|fields| fields.iter().next())
        .map(|(kind, value)| (kind.as_str(), value))
        .ok_or_else(|| format!("an item without an inside: {item}"))
}

fn ids(value: &Value) -> impl Iterator<Item = u64> + '_ {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
}

fn last(path: &str) -> String {
    path.rsplit("::").next().unwrap_or(path).to_owned()
}

/// Every item that can be named from outside, by the shortest path to it.
fn public_paths(json: &Value) -> Result<BTreeMap<u64, String>, String> {
    let root = json["root"].as_u64().ok_or("rustdoc's JSON has no root")?;
    let mut public = BTreeMap::new();
    let mut globs = BTreeSet::new();
    let mut queue = VecDeque::from([(root, None::<String>, None::<String>)]);
    while let Some((id, parent, renamed)) = queue.pop_front() {
        // What is not in the index is another crate's.
        let Some(item) = item(json, id) else { continue };
        let (kind, value) = inner(item)?;
        let parent_path = parent.clone().unwrap_or_default();
        if kind == "use" {
            let Some(target) = value["id"].as_u64() else {
                continue;
            };
            if value["is_glob"] == true {
                let Some(target) = self::item(json, target) else {
                    continue;
                };
                let (kind, value) = inner(target)?;
                let members = &value[if kind == "enum" { "variants" } else { "items" }];
                if globs.insert((target["id"].as_u64(), parent_path)) {
                    queue.extend(ids(members).map(|id| (id, parent.clone(), None)));
                }
            } else {
                queue.push_back((target, parent, value["name"].as_str().map(str::to_owned)));
            }
            continue;
        }
        let name = renamed.or_else(|| item["name"].as_str().map(str::to_owned));
        let name = name.ok_or_else(|| format!("an item without a name: {item}"))?;
        let path = if parent.is_none() {
            name
        } else {
            format!("{parent_path}::{name}")
        };
        if public.contains_key(&id) {
            continue;
        }
        if kind == "module" {
            queue.extend(ids(&value["items"]).map(|id| (id, Some(path.clone()), None)));
        }
        public.insert(id, path);
    }
    Ok(public)
}

/// An alias of a handle is a handle.
fn add_aliases(json: &Value, targets: &mut Targets, names: &Names<'_>) {
    let items = || {
        json["index"]
            .as_object()
            .into_iter()
            .flat_map(|index| index.values())
    };
    loop {
        let before = targets.len();
        for item in items() {
            let (Some(id), alias) = (item["id"].as_u64(), &item["inner"]["type_alias"]["type"])
            else {
                continue;
            };
            let found = find(alias, targets, &BTreeSet::new(), names).handles;
            if !found.is_empty() {
                targets.insert(id, found);
            }
        }
        if targets.len() == before {
            return;
        }
    }
}

struct Walk<'a> {
    json: &'a Value,
    names: Names<'a>,
    targets: Targets,
    surface: Surface,
}

impl<'a> Walk<'a> {
    /// One item that can be named, and what belongs to it.
    fn item(&mut self, id: u64, path: &str) -> Result<(), String> {
        let nothing = BTreeSet::new();
        let Some(item) = item(self.json, id) else {
            return Err(format!("{path} is not in the index"));
        };
        let (kind, value) = inner(item)?;
        match kind {
            "module" => {}
            "struct" | "union" => {
                self.surface.types.insert(last(path));
                self.note(&value["generics"], "type", path, "is", &nothing);
                self.fields(
                    if kind == "union" {
                        value
                    } else {
                        &value["kind"]
                    },
                    path,
                )?;
            }
            "enum" => {
                self.surface.types.insert(last(path));
                self.note(&value["generics"], "type", path, "is", &nothing);
                for variant in ids(&value["variants"]) {
                    let variant = self.get(variant)?;
                    let path = format!("{path}::{}", variant["name"].as_str().unwrap_or("_"));
                    self.fields(&variant["inner"]["variant"]["kind"], &path)?;
                }
            }
            // Reached by a glob over an enum, and looked at there.
            "variant" => {}
            "trait" => {
                self.note(&value["generics"], "trait", path, "is", &nothing);
                self.note(&value["bounds"], "trait", path, "is", &nothing);
                for member in ids(&value["items"]) {
                    self.member(member, path, &nothing)?;
                }
            }
            "trait_alias" => self.note(value, "trait", path, "is", &nothing),
            "function" => self.function(value, path, &nothing),
            "type_alias" => self.note(value, "type", path, "is", &nothing),
            "constant" => self.note(value, "const", path, "is", &nothing),
            "static" => self.note(value, "static", path, "is", &nothing),
            // What it expands to is not known.
            "macro" | "proc_macro" => {
                self.surface
                    .ways
                    .insert(format!("macro {path} gives anything"));
            }
            other => {
                return Err(format!(
                    "{path} is a {other}, which the walk has not learnt"
                ));
            }
        }
        Ok(())
    }

    fn get(&self, id: u64) -> Result<&'a Value, String> {
        item(self.json, id).ok_or_else(|| format!("item {id} is not in the index"))
    }

    /// The fields of a struct, a union or a variant: a tuple (null where private), named, or none.
    fn fields(&mut self, kind: &Value, path: &str) -> Result<(), String> {
        let named = kind
            .get("plain")
            .or_else(|| kind.get("struct"))
            .unwrap_or(kind);
        let hidden = named["has_stripped_fields"] == true
            || kind["tuple"]
                .as_array()
                .is_some_and(|fields| fields.iter().any(Value::is_null));
        if hidden {
            self.surface.opaque.insert(path.to_owned());
        }
        let all: Vec<u64> = ids(&named["fields"]).chain(ids(&kind["tuple"])).collect();
        for field in all {
            let field = self.get(field)?;
            let path = format!("{path}::{}", field["name"].as_str().unwrap_or("_"));
            self.note(
                &field["inner"]["struct_field"],
                "field",
                &path,
                "is",
                &BTreeSet::new(),
            );
        }
        Ok(())
    }

    /// Every implementation of the crate, also those of and for others' traits and types.
    fn impls(&mut self) -> Result<(), String> {
        let index = self.json["index"]
            .as_object()
            .ok_or("rustdoc's JSON has no index")?;
        for item in index.values() {
            let value = &item["inner"]["impl"];
            // A copy of a blanket implementation: of another crate's, which can only make a handle from a handle, or of ours, which is in the index itself.
            if value.is_null() || !value["blanket_impl"].is_null() || value["is_synthetic"] == true
            {
                continue;
            }
            let nothing = BTreeSet::new();
            let owner = self.owner(&value["for"]);
            let of_self = find(&value["for"], &self.targets, &nothing, &self.names).handles;
            let path = if value["trait"].is_null() {
                owner
            } else {
                format!("<{owner} as {}>", self.names.render_path(&value["trait"]))
            };
            self.note(&value["trait"], "impl", &path, "is", &nothing);
            self.note(&value["generics"], "impl", &path, "is", &nothing);
            for member in ids(&value["items"]) {
                self.member(member, &path, &of_self)?;
            }
        }
        Ok(())
    }

    /// The type that an implementation is for, by its public path if it has one.
    fn owner(&self, ty: &Value) -> String {
        let path = &ty["resolved_path"];
        match path["id"].as_u64().and_then(|id| self.names.public(id)) {
            Some(public) if path["args"].is_null() => public.to_owned(),
            Some(public) => match self.names.render_path(path).split_once('<') {
                Some((_, arguments)) => format!("{public}<{arguments}"),
                None => public.to_owned(),
            },
            None => self.names.render(ty),
        }
    }

    /// An item of an implementation or a trait.
    fn member(&mut self, id: u64, parent: &str, of_self: &BTreeSet<String>) -> Result<(), String> {
        let item = self.get(id)?;
        if !["public", "default"]
            .iter()
            .any(|seen| item["visibility"] == *seen)
        {
            return Ok(());
        }
        let path = format!("{parent}::{}", item["name"].as_str().unwrap_or("_"));
        let (kind, value) = inner(item)?;
        match kind {
            "function" => self.function(value, &path, of_self),
            "assoc_type" => self.note(value, "type", &path, "is", of_self),
            "assoc_const" => self.note(value, "const", &path, "is", of_self),
            other => {
                return Err(format!(
                    "{path} is a {other}, which the walk has not learnt"
                ));
            }
        }
        Ok(())
    }

    fn function(&mut self, value: &Value, path: &str, of_self: &BTreeSet<String>) {
        self.surface.functions += 1;
        let gives_future = value["sig"]["output"]["impl_trait"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|bound| {
                bound["trait_bound"]["trait"]["path"]
                    .as_str()
                    .is_some_and(|path| last(path) == "Future")
            });
        if gives_future || value["header"]["is_async"] == true {
            self.surface.futures.insert(last(path));
        }
        self.note(&value["sig"]["output"], "fn", path, "gives", of_self);
        self.note(&value["generics"], "fn", path, "takes", of_self);
        for input in value["sig"]["inputs"].as_array().into_iter().flatten() {
            // The receiver is a handle that the caller has.
            if input[0] != "self" {
                self.note(&input[1], "fn", path, "takes", of_self);
            }
        }
    }

    fn note(
        &mut self,
        value: &Value,
        kind: &str,
        path: &str,
        verb: &str,
        of_self: &BTreeSet<String>,
    ) {
        let found = find(value, &self.targets, of_self, &self.names);
        for handle in found.handles {
            self.surface
                .ways
                .insert(format!("{kind} {path} {verb} {handle}"));
        }
        for krate in found.crates {
            self.surface.foreign.insert((krate, path.to_owned()));
        }
    }
}
