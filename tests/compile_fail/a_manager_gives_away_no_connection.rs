//! What starts, verifies and undoes is not reached from outside.

fn reach(manager: scopectl::Manager, scope: scopectl::Scope) {
    let _ = manager.client; //~ E0616
    let _ = scope.client(); //~ E0599
}

fn main() {}
