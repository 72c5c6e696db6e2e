//! The field is private, so no literal makes a `Scope`.

fn main() {
    let _ = scopectl::Scope(std::sync::Arc::default()); //~ E0423
}
